//! Files and standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How much is read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// A file, or standard input.
pub(super) struct Input {
    /// As it is named in messages.
    pub(super) name: String,
    /// Its size, if it is known.
    bytes: Option<u64>,
    from: Box<dyn Read>,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            if io::stdin().is_terminal() {
                let advice = "name a file, or pipe jobs in: tollway pipeline enqueue jobs.jsonl";
                return Err(Failure::usage("standard input is a terminal").advise(advice));
            }
            return Ok(Self { name: "standard input".to_owned(), bytes: None, from: Box::new(io::stdin()) });
        }
        let cannot = |error: io::Error| Failure::unreadable(Exit::DATA, &path.display().to_string(), &error);
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if metadata.is_dir() {
            return Err(Failure::new(Exit::DATA, format!("{} is a folder", path.display())));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Self { name: path.display().to_string(), bytes, from: Box::new(file) })
    }

    /// Whether its name says that it is CSV.
    pub(super) fn is_table(&self) -> bool {
        let extension = Path::new(&self.name).extension();
        extension.is_some_and(|extension| {
            extension.eq_ignore_ascii_case("csv") || extension.eq_ignore_ascii_case("tsv")
        })
    }

    /// Reads it, and moves the bar.
    pub(super) fn reader(self, bar: &ProgressBar) -> impl BufRead + use<> {
        BufReader::with_capacity(BUFFER_BYTES, bar.wrap_read(self.from))
    }
}

/// A bar over all inputs, or a counter if their size is unknown.
pub(super) fn progress_bar(inputs: &[Input], output: &Output) -> ProgressBar {
    if !output.is_watched() {
        return ProgressBar::hidden();
    }
    let total = inputs.iter().map(|input| input.bytes).sum::<Option<u64>>();
    let (bar, template) = match total {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {percent}% of {total_bytes}, {msg}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} read, {msg}"),
    };
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
