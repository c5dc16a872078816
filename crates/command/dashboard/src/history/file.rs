//! The file that keeps the history over a restart, beside the state file.
//!
//! A first line with the version, then each series: its name, its newest step, its amounts, and its points in little endian.
//! A file that is not whole is ignored: what it had is gone, and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tollway::Timestamp;
use tollway_config::private_file::open_private;

use super::series::{Amount, Point, Series};
use super::{BYTES_MAX, History, SERIES_MAX};
use crate::rows::STEP;

/// The first line. Another version is ignored.
const HEADER: &[u8] = b"tollway history 1\n";

/// The file of a process that keeps its state in a file.
#[derive(Clone, Debug)]
pub(crate) struct HistoryFile(PathBuf);

impl HistoryFile {
    /// Beside this state file.
    pub(crate) fn beside(state: &Path) -> Self {
        let mut path = state.to_owned().into_os_string();
        path.push(".history");
        Self(path.into())
    }

    /// What it has; none if there is no file, or none that can be read.
    pub(crate) fn load(&self, now: Timestamp) -> Option<History> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(BYTES_MAX * 2).unwrap_or(u64::MAX);
        let read = File::open(&self.0).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        match read {
            Ok(_) => {
                let read = History::read(&bytes, now);
                if read.is_none() {
                    tracing::warn!("{} is no history of this version; a new one begins", self.0.display());
                }
                read
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(%error, "the history in {} cannot be read", self.0.display());
                None
            }
        }
    }

    /// Replaces the file. Blocks.
    pub(crate) fn save(&self, bytes: &[u8]) -> io::Result<()> {
        let mut draft = self.0.clone().into_os_string();
        // With the pid: of several processes on one state file, none writes into another's draft.
        draft.push(format!(".{}.tmp", std::process::id()));
        let draft = PathBuf::from(draft);
        // Removes what a killed process left there. It is never opened, because it could be a link.
        let _ = fs::remove_file(&draft);
        let mut file = open_private(&draft, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(bytes)?;
        fs::rename(&draft, &self.0)
    }
}

impl History {
    /// As bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        bytes.extend(self.since.as_micros().to_le_bytes());
        for (id, series) in &self.series {
            let Ok(length) = u16::try_from(id.len()) else { continue };
            bytes.extend(length.to_le_bytes());
            bytes.extend(id.as_bytes());
            bytes.extend(series.step.to_le_bytes());
            bytes.extend(series.score.to_le_bytes());
            bytes.extend(u16::try_from(series.amounts.len()).unwrap_or(0).to_le_bytes());
            for Amount { from, amount, capacity } in &series.amounts {
                bytes.extend([from, amount, capacity].into_iter().flat_map(|number| number.to_le_bytes()));
            }
            for Point { used, granted, denied } in series.fine.iter().chain(&series.coarse) {
                bytes.extend([used, granted, denied].into_iter().flat_map(|number| number.to_le_bytes()));
            }
        }
        bytes
    }

    fn read(bytes: &[u8], now: Timestamp) -> Option<Self> {
        let mut bytes = Bytes(bytes.strip_prefix(HEADER)?);
        let since = Timestamp::from_micros(bytes.u64()?);
        let mut history = Self::new(if since < now { since } else { now });
        let step = now.as_micros() / STEP.as_micros();
        while !bytes.0.is_empty() && history.series.len() < SERIES_MAX {
            let length = bytes.u16()?;
            let id = std::str::from_utf8(bytes.take(length.into())?).ok()?.to_owned();
            let newest = bytes.u64()?;
            let mut series = Series::new(0);
            (series.step, series.score) = (newest, f64::from_bits(bytes.u64()?));
            for _ in 0..bytes.u16()? {
                let (from, amount, capacity) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
                series.amounts.push(Amount { from, amount, capacity });
            }
            for point in series.fine.iter_mut().chain(&mut series.coarse) {
                *point = Point { used: bytes.u16()?, granted: bytes.u16()?, denied: bytes.u16()? };
            }
            // Times of the future are of another clock.
            if newest <= step && series.score.is_finite() {
                series.skip_to(step.saturating_sub(1));
                history.series.insert(id, series);
            }
        }
        Some(history)
    }
}

/// Bytes that are left to read.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::Span;
    use super::*;

    #[test]
    fn a_history_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = HistoryFile::beside(&folder.path().join("state"));
        let then = Timestamp::from_secs(1_000_000);
        assert!(file.load(then).is_none());
        let mut history = History::new(then);
        let mut series = Series::new(200_000);
        series.note_amount(200_000, 10, 10);
        series.note(200_000, Point::new(Some((4, 10)), 2, 1));
        history.series.insert("a/l".to_owned(), series);
        file.save(&history.bytes()).unwrap();
        let later = Timestamp::from_secs(1_000_020);
        let read = file.load(later).unwrap();
        assert_eq!(read.since(), then);
        let (_, hour) = read.of("a/l").unwrap().read(Span::Hour, 200_003);
        assert_eq!(
            hour[716..].iter().map(|known| known.used).collect::<Vec<_>>(),
            [Some(4), None, None, None]
        );
        for broken in [&b"tollway history 2\n"[..], b"", &history.bytes()[..100]] {
            file.save(broken).unwrap();
            assert!(file.load(later).is_none());
        }
    }
}
