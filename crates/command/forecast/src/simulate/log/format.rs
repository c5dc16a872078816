//! Which format a log has: named by the caller, or detected from its first lines.

use super::{Reason, Value, clf, csv, jsonl};
use crate::simulate::error::SimulateError;

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values under a line of names.
    Csv,
    /// The common or combined access log of web servers.
    Clf,
}

impl LogFormat {
    /// Its name: `jsonl`, `csv` or `clf`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Clf => "clf",
        }
    }
}

/// A format, with what its first line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Format {
    Jsonl,
    Csv { separator: char, columns: Vec<String> },
    Clf,
}

impl Format {
    /// The format of a log that begins with these lines.
    pub(super) fn of(name: Option<LogFormat>, sample: &[&str]) -> Result<Self, SimulateError> {
        let first = sample.first().copied().unwrap_or_default();
        match name.or_else(|| guess(sample)) {
            Some(LogFormat::Jsonl) => Ok(Self::Jsonl),
            Some(LogFormat::Clf) => Ok(Self::Clf),
            Some(LogFormat::Csv) => {
                let separator = csv::separator(first).unwrap_or(',');
                let names = csv::Fields::of(first, separator);
                let columns = names.iter().flat_map(csv::Fields::iter).map(str::to_owned).collect();
                Ok(Self::Csv { separator, columns })
            }
            None => Err(SimulateError::UnknownFormat),
        }
    }

    pub(super) fn name(&self) -> LogFormat {
        match self {
            Self::Jsonl => LogFormat::Jsonl,
            Self::Csv { .. } => LogFormat::Csv,
            Self::Clf => LogFormat::Clf,
        }
    }

    /// Whether the first line names the fields and is no call.
    pub(super) fn has_header(&self) -> bool {
        matches!(self, Self::Csv { .. })
    }

    /// The names of the fields: all there are, or, of JSON lines, those in the sample.
    pub(super) fn fields(&self, sample: &[&str]) -> Vec<String> {
        match self {
            Self::Jsonl => {
                let mut names: Vec<String> =
                    sample.iter().filter_map(|line| jsonl::names(line)).flatten().collect();
                names.sort_unstable();
                names.dedup();
                names
            }
            Self::Csv { columns, .. } => columns.clone(),
            Self::Clf => clf::NAMES.iter().chain([&clf::AGENT]).map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Where this field stands in a line. JSON lines may have any field anywhere.
    pub(super) fn place(&self, field: &str) -> Result<usize, SimulateError> {
        if *self == Self::Jsonl {
            return Ok(0);
        }
        let fields = self.fields(&[]);
        let place = fields.iter().position(|name| name == field);
        place.ok_or_else(|| SimulateError::NoField { field: field.to_owned(), known: fields })
    }

    /// Puts the wanted fields of a line into `values`.
    pub(super) fn read<'l>(
        &self,
        line: &'l str,
        names: &[String],
        places: &[usize],
        values: &mut [Value<'l>],
    ) -> Result<(), Reason> {
        match self {
            Self::Jsonl => jsonl::read(line, names, values),
            Self::Csv { separator, columns } => csv::read(line, *separator, columns.len(), places, values),
            Self::Clf => clf::read(line, places, values),
        }
    }
}

/// JSON and access logs are known by any of the first lines; CSV by the first one alone.
fn guess(sample: &[&str]) -> Option<LogFormat> {
    if sample.iter().any(|line| line.trim_start().starts_with('{')) {
        return Some(LogFormat::Jsonl);
    }
    if sample.iter().any(|line| clf::split(line).is_some()) {
        return Some(LogFormat::Clf);
    }
    csv::separator(sample.first()?).map(|_| LogFormat::Csv)
}
