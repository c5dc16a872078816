//! The vendor's own log: a line of JSON for every operation that was requested, accepted or not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tollway::{Span, Timestamp};

use crate::BoxError;

/// A log that is written.
pub(crate) struct VendorLog(File);

#[derive(Deserialize, Serialize)]
struct LogLine {
    /// When it was decided: microseconds since 1970.
    at: u64,
    operation: String,
    status: u16,
}

/// What a log says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VendorCounts {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    /// Accepted requests in each window of the vendor that had some, in order.
    pub(crate) windows: Vec<u64>,
}

impl VendorLog {
    /// Goes on at the end of the file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        File::options().create(true).append(true).open(path).map(Self)
    }

    pub(crate) fn write(&mut self, at: Timestamp, operation: &str, status: u16) -> io::Result<()> {
        let line = LogLine { at: at.as_micros(), operation: operation.to_owned(), status };
        writeln!(self.0, "{}", serde_json::to_string(&line)?)
    }
}

impl VendorCounts {
    /// Reads a log. Windows have this length.
    pub(crate) fn read(path: &Path, length: Span) -> Result<Self, BoxError> {
        let mut counts = Self::default();
        let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
        for line in std::fs::read_to_string(path)?.lines() {
            let line: LogLine = serde_json::from_str(line)?;
            match line.status {
                200 => {
                    counts.accepted += 1;
                    *windows.entry(line.at / length.as_micros().max(1)).or_default() += 1;
                }
                _ => counts.refused += 1,
            }
        }
        counts.windows = windows.into_values().collect();
        Ok(counts)
    }
}
