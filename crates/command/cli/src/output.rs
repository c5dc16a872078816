//! Output of a command: the result on standard output, as text or JSON; everything else on standard error.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::json;
use tracing::Level;

use crate::cli::Color;
use crate::failure::Failure;
use crate::layout::{COLUMNS, sentence};
use crate::log;

/// Emphasis.
pub(crate) const STRONG: Style = Style::new().bold();
/// Secondary text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Warnings.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// Errors and denials.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

/// The output streams of a command.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    color: ColorChoice,
    answer: RefCell<BufWriter<AutoStream<io::Stdout>>>,
    /// The reader closed the pipe (`| head`): no failure, and the rest is not written.
    pipe_closed: Cell<bool>,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool, color: Color) -> Self {
        let color = match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::AlwaysAnsi,
            Color::Never => ColorChoice::Never,
        };
        let answer = RefCell::new(BufWriter::new(AutoStream::new(io::stdout(), color)));
        Self { json, quiet, color, answer, pipe_closed: Cell::new(false) }
    }

    /// Whether the result is printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether only the result is printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether progress may be drawn: standard error is a terminal.
    pub(crate) fn is_watched(&self) -> bool {
        !self.quiet && !self.json && !log::is_json() && io::stderr().is_terminal()
    }

    /// Whether a person reads the result as it comes: standard output is a terminal.
    pub(crate) fn is_interactive(&self) -> bool {
        !self.quiet && !self.json && io::stdout().is_terminal()
    }

    /// A line of the result as text. Styles are removed where colours are off.
    pub(crate) fn line(&self, text: impl Display) -> Result<(), Failure> {
        self.write(|answer| writeln!(answer, "{text}"))
    }

    /// A sentence of the result, wrapped: the first line begins with `first`, the others with as much space.
    pub(crate) fn sentence(&self, first: &str, style: Style, text: &str) -> Result<(), Failure> {
        let hang = first.chars().count();
        for (index, line) in sentence(text, COLUMNS.saturating_sub(hang)).iter().enumerate() {
            let start = if index == 0 { first.to_owned() } else { " ".repeat(hang) };
            self.line(format_args!("{start}{style}{line}{style:#}"))?;
        }
        Ok(())
    }

    /// Raw bytes of the result.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.write(|answer| answer.write_all(bytes))
    }

    /// The result as JSON on one line.
    pub(crate) fn json(&self, answer: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(answer).map_err(io::Error::from)?;
        self.line(text)
    }

    /// Flushes standard output: before a long operation, and at the end.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.write(Write::flush)
    }

    /// Whether the reader of standard output has closed the pipe.
    #[cfg(feature = "pipeline")]
    pub(crate) fn reader_has_gone(&self) -> bool {
        self.pipe_closed.get()
    }

    fn write(
        &self,
        write: impl FnOnce(&mut BufWriter<AutoStream<io::Stdout>>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.pipe_closed.get() {
            return Ok(());
        }
        match write(&mut self.answer.borrow_mut()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.pipe_closed.set(true);
                Ok(())
            }
            written => Ok(written?),
        }
    }

    /// A remark on standard error; left out with `--json` and `--quiet`.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet && !self.json && !log::say_as_json(Level::INFO, &text.to_string(), None) {
            self.write_stderr(text);
        }
    }

    /// A warning on standard error; left out with `--quiet`.
    pub(crate) fn warning(&self, text: impl Display) {
        if !self.quiet && !log::say_as_json(Level::WARN, &text.to_string(), None) {
            self.write_stderr(format_args!("{WARN}warning:{WARN:#} {text}"));
        }
    }

    /// The error that ended the command.
    pub(crate) fn failure(&self, failure: &Failure) {
        let (message, advice) = (failure.message(), failure.advice());
        if self.json {
            let exit = failure.exit().code();
            self.write_stderr(json!({ "error": { "message": message, "advice": advice, "exit": exit } }));
            return;
        }
        if log::say_as_json(Level::ERROR, message, advice) {
            return;
        }
        self.write_stderr(format_args!("{BAD}error:{BAD:#} {message}"));
        if let Some(advice) = advice {
            self.write_stderr(format_args!("  {FAINT}try:{FAINT:#} {advice}"));
        }
    }

    /// A closed standard error must not end the command.
    fn write_stderr(&self, text: impl Display) {
        let _ = writeln!(AutoStream::new(io::stderr(), self.color), "{text}");
    }
}
