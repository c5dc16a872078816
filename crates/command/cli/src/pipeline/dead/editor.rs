//! A job's data in the user's editor.

use std::env;
use std::io::Write;
use std::process::Command;

use tempfile::NamedTempFile;
use tollway_pipeline::{Edit, Job};

use crate::failure::{Exit, Failure};
use crate::pipeline::json_text::indent;

/// What the user did.
pub(super) enum Outcome {
    Unchanged,
    Edited(EditedText),
}

/// The text that was written, and the file that has it.
pub(super) struct EditedText {
    text: String,
    file: NamedTempFile,
}

/// Opens the data in `$VISUAL`, `$EDITOR` or vi, and waits.
pub(super) fn edit(job: &Job) -> Result<Outcome, Failure> {
    let cannot =
        |error: std::io::Error| Failure::new(Exit::FAILED, format!("cannot edit in a file: {error}"));
    let mut file = tempfile::Builder::new()
        .prefix(&format!("job-{}-", job.id))
        .suffix(".json")
        .tempfile()
        .map_err(cannot)?;
    let before = indent(&job.data) + "\n";
    file.write_all(before.as_bytes()).and_then(|()| file.flush()).map_err(cannot)?;
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| env::var(name).ok().filter(|text| !text.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // Like git: the variable may have options in it.
    let status =
        Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file.path()).status();
    let status = status.map_err(|error| Failure::new(Exit::FAILED, format!("cannot start sh: {error}")))?;
    // The editor may have replaced the file.
    let text = std::fs::read_to_string(file.path()).map_err(cannot)?;
    if !status.success() {
        let edited = EditedText { text, file };
        let failure = Failure::new(Exit::FAILED, format!("{editor} ended with {status}; nothing was stored"));
        return edited.keep_if_failed(Err(failure), "dead edit ID --data @");
    }
    match text == before {
        true => Ok(Outcome::Unchanged),
        false => Ok(Outcome::Edited(EditedText { text, file })),
    }
}

impl EditedText {
    /// The edit, if the text is JSON.
    pub(super) fn check(&self, job: &Job) -> Result<Edit, Failure> {
        Edit::default().data(self.text.trim()).map_err(|error| {
            Failure::new(Exit::DATA, format!("dead letter {} is unchanged: {error}", job.id))
        })
    }

    /// Keeps the file if the edit was not stored, and says where it is.
    pub(super) fn keep_if_failed<T>(self, stored: Result<T, Failure>, again: &str) -> Result<T, Failure> {
        let failure = match stored {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        match self.file.keep() {
            Ok((_, path)) => {
                let path = path.display();
                Err(failure.advise(format!(
                    "your text is in {path}; correct it, then: tollway pipeline {again}{path}"
                )))
            }
            Err(error) => Err(failure.advise(format!("your text could not be kept: {error}"))),
        }
    }
}
