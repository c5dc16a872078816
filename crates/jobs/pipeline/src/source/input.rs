//! Records of a file or a stream, one after the other.

use std::io::BufRead;

use tollway_core::Timestamp;

use super::csv::{Row, Rows};
use super::error::InputError;
use super::line::Lines;
use super::{RecordJobs, Source};

/// How an input separates its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON value in each line.
    Jsonl,
    /// Comma-separated values under a line of names; semicolons and tabs separate as well. A row is a JSON object of strings.
    Csv,
}

/// Reads the records of an input, with bounded memory. Empty lines are skipped.
///
/// ```
/// use tollway_core::{Name, Timestamp};
/// use tollway_pipeline::source::{Format, Records, Source};
///
/// let source = Source::new(Name::new("resize")?);
/// let input = "{\"key\": 1}\n{\"key\":\n{\"key\": 3}\n";
/// let mut records = Records::new(source, input.as_bytes(), Format::Jsonl);
/// let (mut jobs, mut wrong) = (Vec::new(), Vec::new());
/// while let Some((line, read)) = records.next_record(Timestamp::EPOCH)? {
///     jobs.extend(read.jobs);
///     wrong.extend(read.errors.iter().map(|error| format!("line {line}: {error}")));
/// }
/// assert_eq!(jobs.len(), 2);
/// assert_eq!(wrong, ["line 2: the JSON ends early; write each record on one line, as `jq -c` does"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Records<R> {
    source: Source,
    lines: Lines<R>,
    format: Format,
    /// Of CSV, once the line of names is read.
    rows: Option<Rows>,
}

impl<R: BufRead> Records<R> {
    /// Reads this input.
    pub fn new(source: Source, input: R, format: Format) -> Self {
        Self { source, lines: Lines::new(input), format, rows: None }
    }

    /// The next record and the number of its line; none at the end. A bad record is part of the answer: reading goes on
    /// after it. After an error, nothing more can be read.
    pub fn next_record(&mut self, now: Timestamp) -> Result<Option<(u64, RecordJobs)>, InputError> {
        let record = match self.format {
            Format::Jsonl => self.next_line()?,
            Format::Csv => self.next_row()?,
        };
        Ok(record.map(|(line, record)| match record {
            Ok(record) => (line, self.source.read(&record, now)),
            Err(fault) => (line, RecordJobs::error(fault)),
        }))
    }

    fn next_line(&mut self) -> Result<Option<Row>, InputError> {
        while let Some(line) = self.lines.next()? {
            if !line.text.as_ref().is_ok_and(|text| text.trim().is_empty()) {
                return Ok(Some((line.number, line.text)));
            }
        }
        Ok(None)
    }

    fn next_row(&mut self) -> Result<Option<Row>, InputError> {
        if self.rows.is_none() {
            self.rows = Rows::begin(&mut self.lines)?;
        }
        match &mut self.rows {
            Some(rows) => Ok(rows.next(&mut self.lines)?),
            None => Ok(None),
        }
    }
}
