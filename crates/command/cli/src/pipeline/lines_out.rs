//! Lines of JSON to standard output, or to a file that appears when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Where lines go.
pub(super) struct LinesOut<'o> {
    output: &'o Output,
    file: Option<(PathBuf, BufWriter<NamedTempFile>)>,
    pub(super) lines: u64,
}

impl<'o> LinesOut<'o> {
    /// To this file, or to standard output. A file of that name is replaced at the end.
    pub(super) fn new(path: Option<&Path>, output: &'o Output) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self { output, file: None, lines: 0 }) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder).map_err(|error| cannot_write(path, &error))?;
        Ok(Self { output, file: Some((path.to_owned(), BufWriter::new(file))), lines: 0 })
    }

    /// Writes a line. False: the reader of standard output has gone, and wants no more.
    pub(super) fn line(&mut self, line: &str) -> Result<bool, Failure> {
        self.lines += 1;
        match &mut self.file {
            None => {
                self.output.line(line)?;
                Ok(!self.output.reader_has_gone())
            }
            Some((path, file)) => {
                writeln!(file, "{line}").map(|()| true).map_err(|error| cannot_write(path, &error))
            }
        }
    }

    /// Completes the file, and says what it has.
    pub(super) fn finish(self, what: &str) -> Result<(), Failure> {
        let Some((path, file)) = self.file else { return Ok(()) };
        let wrong = |error: &io::Error| cannot_write(&path, error);
        let file = file.into_inner().map_err(|error| wrong(error.error()))?;
        file.as_file().sync_all().map_err(|error| wrong(&error))?;
        file.persist(&path).map_err(|error| wrong(&error.error))?;
        self.output.note(format_args!("{what} in {}", path.display()));
        Ok(())
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("cannot write {}: {error}", path.display()))
}
