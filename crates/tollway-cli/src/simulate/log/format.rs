//! Which format a log has: said, or told from its first lines.

use clap::ValueEnum;
use tollway::core::nearest;

use super::{Reason, Value, clf, csv, jsonl};
use crate::failure::{Exit, Failure};

/// The formats, as users name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values under a line of names
    Csv,
    /// The common or combined access log of web servers
    Clf,
}

impl FormatName {
    pub(crate) fn word(self) -> &'static str {
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
    pub(super) fn of(name: Option<FormatName>, sample: &[&str]) -> Result<Self, Failure> {
        let first = sample.first().copied().unwrap_or_default();
        match name.or_else(|| guess(sample)) {
            Some(FormatName::Jsonl) => Ok(Self::Jsonl),
            Some(FormatName::Clf) => Ok(Self::Clf),
            Some(FormatName::Csv) => {
                let separator = csv::separator(first).unwrap_or(',');
                let names = csv::Fields::of(first, separator);
                let columns = names.iter().flat_map(csv::Fields::iter).map(str::to_owned).collect();
                Ok(Self::Csv { separator, columns })
            }
            None => Err(Failure::new(
                Exit::DATA,
                "the log is neither JSON lines, nor CSV with a line of names, nor an access log",
            )
            .advise("say what it is, if it is one of them: --format jsonl, csv or clf")),
        }
    }

    pub(super) fn name(&self) -> FormatName {
        match self {
            Self::Jsonl => FormatName::Jsonl,
            Self::Csv { .. } => FormatName::Csv,
            Self::Clf => FormatName::Clf,
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
    pub(super) fn place(&self, field: &str) -> Result<usize, Failure> {
        if *self == Self::Jsonl {
            return Ok(0);
        }
        let fields = self.fields(&[]);
        fields.iter().position(|name| name == field).ok_or_else(|| {
            let failure = Failure::new(Exit::DATA, format!("the log has no field {field:?}"));
            match nearest(field, fields.iter().map(String::as_str)) {
                Some(near) => failure.advise(format!("did you mean {near:?}?")),
                None => failure.advise(format!("its fields are {}", fields.join(", "))),
            }
        })
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
fn guess(sample: &[&str]) -> Option<FormatName> {
    if sample.iter().any(|line| line.trim_start().starts_with('{')) {
        return Some(FormatName::Jsonl);
    }
    if sample.iter().any(|line| clf::split(line).is_some()) {
        return Some(FormatName::Clf);
    }
    csv::separator(sample.first()?).map(|_| FormatName::Csv)
}
