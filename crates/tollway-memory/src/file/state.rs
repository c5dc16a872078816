//! The state file and its lines together: what the holder of the lock works on.

use std::path::PathBuf;

use tollway_core::{Operation, Outcomes, Setting, SettingChange, StoreError, Timestamp};

use super::bounds::{COMPACT_BYTES_MIN, COMPACT_FACTOR, FILE_BYTES_MAX, RECORD_BYTES_MAX, RECORD_BYTES_SOFT};
use super::error::FileError;
use super::lines::Lines;
use super::lock::Held;
use super::log::{Log, Since, Tail};

/// The state file, and what this process knows of it. Every method needs the lock, and asks for the proof.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    /// None until it was read, and again after a write failed: then only the file knows what is true. Without it there
    /// are no lines, and so no changes, either.
    log: Option<Log>,
    lines: Lines,
    /// At this size it is worth counting what the live lines need.
    count_at: u64,
}

impl State {
    /// Of this file, which nobody has looked at yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, log: None, lines: Lines::default(), count_at: COMPACT_BYTES_MIN }
    }

    /// Reads what others have written.
    pub(super) fn refresh(&mut self, held: &Held<'_>) -> Result<(), FileError> {
        if let Some(log) = &mut self.log {
            let known = match log.since()? {
                Since::Same => true,
                Since::Grown => matches!(log.read(|record| self.lines.take_in(record)), Ok(Tail::Whole)),
                Since::Replaced => false,
            };
            if known {
                return Ok(());
            }
        }
        self.reload(held)
    }

    /// Reads the whole file, cuts off a torn tail, and makes the file if there is none.
    fn reload(&mut self, _: &Held<'_>) -> Result<(), FileError> {
        self.unload();
        let log = match Log::open(&self.path)? {
            None => Log::create(&self.path)?,
            Some(mut log) => {
                if log.read(|record| self.lines.take_in(record))? == Tail::Torn {
                    log.cut()?;
                    tracing::warn!(path = %self.path.display(), size = log.size(), "cut off a write that a crash left unfinished");
                }
                log
            }
        };
        self.log = Some(log);
        Ok(())
    }

    fn unload(&mut self) {
        self.log = None;
        self.lines = Lines::default();
        self.count_at = COMPACT_BYTES_MIN;
    }

    /// The store's time.
    pub(super) fn time(&self, clock: Timestamp) -> Timestamp {
        self.lines.time(clock)
    }

    /// Applies a batch in memory. Nothing of it has happened until [`State::write`] says so.
    pub(super) fn apply(
        &mut self,
        batch: &[Operation],
        now: Timestamp,
        held: &Held<'_>,
    ) -> Result<Outcomes, FileError> {
        self.have_read(held)?;
        if !self.lines.make_room(batch, now) {
            return Err(FileError::Full(self.path.clone()));
        }
        Ok(batch.iter().map(|operation| self.lines.apply(operation, now)).collect())
    }

    /// The limits that are set.
    pub(super) fn settings(&mut self, held: &Held<'_>) -> Result<&[Setting], FileError> {
        self.have_read(held)?;
        Ok(self.lines.settings())
    }

    /// Changes what is set for a limit, in memory; [`State::write`] makes it so.
    pub(super) fn change(
        &mut self,
        change: SettingChange,
        now: Timestamp,
        held: &Held<'_>,
    ) -> Result<(), StoreError> {
        self.have_read(held).map_err(|error| error.answer())?;
        self.lines.change(change, now)
    }

    /// After a write that failed, only the file knows what is true.
    fn have_read(&mut self, held: &Held<'_>) -> Result<(), FileError> {
        if self.log.is_none() { self.reload(held) } else { Ok(()) }
    }

    /// Whether so much has changed that it should be written before more is decided.
    pub(super) fn should_write(&self) -> bool {
        self.lines.changed_bytes() > RECORD_BYTES_SOFT
    }

    /// Writes all that has changed as one record. If that fails, none of it has happened.
    pub(super) fn write(&mut self, now: Timestamp, held: &Held<'_>) -> Result<(), FileError> {
        let written = self.try_write(now, held);
        match &written {
            Ok(()) => self.lines.written(),
            Err(_) => self.unload(),
        }
        written
    }

    fn try_write(&mut self, now: Timestamp, held: &Held<'_>) -> Result<(), FileError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let changes = self.lines.changes();
        let Some(record) = changes.map_err(|error| FileError::doing("write", &self.path)(error.into()))?
        else {
            return Ok(());
        };
        if record.len() > RECORD_BYTES_MAX {
            return Err(FileError::RecordTooLarge { path: self.path.clone(), bytes: record.len() });
        }
        let size = u64::try_from(record.len()).unwrap_or(u64::MAX);
        if log.size().saturating_add(size) <= FILE_BYTES_MAX {
            return log.append(&record);
        }
        // A new file holds the changes as well. Unless it leaves room for many more, it is not worth its time.
        if self.lines.live_bytes(now) > FILE_BYTES_MAX / 2 {
            return Err(FileError::TooLarge(self.path.clone()));
        }
        self.compact(now, held)
    }

    /// Compacts the file if it has become much larger than its live lines need.
    ///
    /// If that fails, the larger file is as good, so it is only tried again when the file has grown.
    pub(super) fn tidy(&mut self, now: Timestamp, held: &Held<'_>) {
        let Some(size) = self.log.as_ref().map(Log::size) else { return };
        if size <= self.count_at {
            return;
        }
        self.count_at = size.saturating_add(COMPACT_BYTES_MIN.max(size / COMPACT_FACTOR));
        if size > self.lines.live_bytes(now).saturating_mul(COMPACT_FACTOR)
            && let Err(error) = self.compact(now, held)
        {
            tracing::warn!(%error, "the state file could not be compacted and goes on growing");
        }
    }

    fn compact(&mut self, now: Timestamp, _: &Held<'_>) -> Result<(), FileError> {
        let Some(log) = &self.log else { return Ok(()) };
        self.lines.forget_expired(now);
        self.log = Some(log.replace(self.lines.records())?);
        self.count_at = COMPACT_BYTES_MIN;
        Ok(())
    }
}
