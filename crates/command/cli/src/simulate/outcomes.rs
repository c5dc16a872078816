//! `--outcomes`: the outcome of each call, written while the log is replayed.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollway::Span;
use tollway_forecast::simulate::{CallDecision, CallOutcome};

use crate::failure::{Exit, Failure};

/// The file of the outcomes.
pub(super) struct OutcomesFile {
    path: PathBuf,
    file: BufWriter<std::fs::File>,
}

impl OutcomesFile {
    /// Creates the file before the replay, which can take long.
    pub(super) fn create(path: &Path, overwrite: bool) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(!overwrite).create(overwrite).truncate(overwrite);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Failure::new(Exit::FAILED, format!("{} already exists", path.display()))
                    .advise("use another file with --outcomes, or overwrite it with --force")
            }
            _ => not_written(path, &error),
        })?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Adds a line.
    pub(super) fn write(&mut self, outcome: &CallOutcome<'_>) -> io::Result<()> {
        writeln!(self.file, "{}", line(outcome))
    }

    /// Writes what is buffered.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| not_written(&self.path, &error))
    }
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("cannot write {}: {error}", path.display()))
}

fn line(outcome: &CallOutcome<'_>) -> Value {
    let CallOutcome { number, call, title, decision } = outcome;
    let millis = |span: Span| span.as_micros().div_ceil(1_000);
    let mut line = json!({
        "call": number, "at": call.time.to_string(), "subject": call.subject.as_str(), "policy": title,
    });
    match decision {
        CallDecision::Granted { wait } => {
            line["granted"] = json!(true);
            line["wait_ms"] = json!(millis(*wait));
        }
        CallDecision::Denied { limit, fits_after } => {
            line["granted"] = json!(false);
            line["limit"] = json!(limit.map(|limit| limit.name().as_str()));
            line["fits_after_ms"] = json!(fits_after.map(millis));
        }
    }
    line
}
