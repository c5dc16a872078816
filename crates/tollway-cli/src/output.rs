//! What a command says: the answer on standard output, for people or for programs; everything else on standard error.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::json;

use crate::cli::Color;
use crate::failure::Failure;

/// What stands out.
pub(crate) const STRONG: Style = Style::new().bold();
/// What matters less.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// All is well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Worth a look.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// Wrong, or denied.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

/// Where a command speaks.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    color: ColorChoice,
    answer: RefCell<BufWriter<AutoStream<io::Stdout>>>,
    /// Whoever read the answer has seen enough (`| head`): that is no failure, and the rest need not be written.
    unread: Cell<bool>,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool, color: Color) -> Self {
        let color = match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::AlwaysAnsi,
            Color::Never => ColorChoice::Never,
        };
        let answer = RefCell::new(BufWriter::new(AutoStream::new(io::stdout(), color)));
        Self { json, quiet, color, answer, unread: Cell::new(false) }
    }

    /// Whether a program reads the answer.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether only the answer is wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether somebody watches: then progress may be drawn on standard error.
    pub(crate) fn is_watched(&self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// A line of the answer, for people. Styles in it are taken out where they do not belong.
    pub(crate) fn line(&self, text: impl Display) -> Result<(), Failure> {
        self.write(|answer| writeln!(answer, "{text}"))
    }

    /// Bytes of the answer, as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.write(|answer| answer.write_all(bytes))
    }

    /// The answer, for programs: one line.
    pub(crate) fn json(&self, answer: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(answer).map_err(io::Error::from)?;
        self.line(text)
    }

    /// Sends what was said so far on its way: before something that takes long, and in the end.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.write(Write::flush)
    }

    fn write(
        &self,
        write: impl FnOnce(&mut BufWriter<AutoStream<io::Stdout>>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.unread.get() {
            return Ok(());
        }
        match write(&mut self.answer.borrow_mut()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.unread.set(true);
                Ok(())
            }
            written => Ok(written?),
        }
    }

    /// Something worth knowing beside the answer; not said to programs or when only the answer is wanted.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet && !self.json {
            self.say(text);
        }
    }

    /// Something that may be wrong.
    pub(crate) fn warning(&self, text: impl Display) {
        if !self.quiet {
            self.say(format_args!("{WARN}warning:{WARN:#} {text}"));
        }
    }

    /// Why there is no answer.
    pub(crate) fn failure(&self, failure: &Failure) {
        let (message, advice) = (failure.message(), failure.advice());
        if self.json {
            let exit = failure.exit().code();
            self.say(json!({ "error": { "message": message, "advice": advice, "exit": exit } }));
            return;
        }
        self.say(format_args!("{BAD}error:{BAD:#} {message}"));
        if let Some(advice) = advice {
            self.say(format_args!("  {FAINT}try:{FAINT:#} {advice}"));
        }
    }

    /// Nobody may be listening on standard error; that must not end the command.
    fn say(&self, text: impl Display) {
        let _ = writeln!(AutoStream::new(io::stderr(), self.color), "{text}");
    }
}
