//! The state file together with its accounts. Only the holder of the lock uses it.

use std::path::PathBuf;

use tollway_core::{
    AccountList, Name, Operation, Outcomes, Setting, SettingChange, Span, StoreError, Timestamp,
};

use super::accounts::FileAccounts;
use super::bounds::{COMPACT_BYTES_MIN, COMPACT_FACTOR, FILE_BYTES_MAX, RECORD_BYTES_MAX, RECORD_BYTES_SOFT};
use super::error::FileError;
use super::lock::LockGuard;
use super::log::{FileChange, Log, Tail};
use crate::state_clock::{BEHIND_MIN, StateClock};

/// The state file, and what this process knows of it. Methods take the lock guard as proof of the lock.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    /// `None` until it is read, and after a failed write, which makes the accounts in memory unreliable. Without it there
    /// are no accounts and no changes.
    log: Option<Log>,
    accounts: FileAccounts,
    /// The file size at which to check again whether compaction is worthwhile.
    count_at: u64,
    /// Whether it was reported that the clock is behind the file.
    is_behind: bool,
}

impl State {
    /// The state of this file, not read yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            log: None,
            accounts: FileAccounts::default(),
            count_at: COMPACT_BYTES_MIN,
            is_behind: false,
        }
    }

    /// Reads what other processes have written.
    pub(super) fn refresh(&mut self, guard: &LockGuard<'_>) -> Result<(), FileError> {
        if let Some(log) = &mut self.log {
            let known = match log.change()? {
                FileChange::None => true,
                FileChange::Appended => {
                    matches!(log.read(|record| self.accounts.load(record)), Ok(Tail::Whole))
                }
                FileChange::Replaced => false,
            };
            if known {
                return Ok(());
            }
        }
        self.reload(guard)
    }

    /// Reads the whole file and cuts off a torn tail. Creates the file if there is none.
    fn reload(&mut self, _: &LockGuard<'_>) -> Result<(), FileError> {
        self.unload();
        let log = match Log::open(&self.path)? {
            None => Log::create(&self.path)?,
            Some(mut log) => {
                if log.read(|record| self.accounts.load(record))? == Tail::Torn {
                    log.cut_torn_tail()?;
                    tracing::warn!(path = %self.path.display(), size = log.size(), "cut off a partial write that a crash left behind");
                }
                log
            }
        };
        self.log = Some(log);
        Ok(())
    }

    fn unload(&mut self) {
        self.log = None;
        self.accounts = FileAccounts::default();
        self.count_at = COMPACT_BYTES_MIN;
    }

    /// The time by the clock, which goes on from what the file says. Without an uptime it may be behind the file.
    pub(super) fn time(&mut self, clock: &StateClock) -> Timestamp {
        clock.resume(self.accounts.anchor(), self.accounts.newest());
        let date = clock.date();
        let time = clock.at_least(date);
        self.accounts.keep_anchor(clock.to_store(self.accounts.anchor(), date));
        self.warn_once(time.since(date), self.accounts.newest().since(time));
        time
    }

    /// The time of decisions: never before the expiry of a deleted account.
    pub(super) fn time_of_decisions(&self, time: Timestamp) -> Timestamp {
        time.max(self.accounts.forgotten())
    }

    /// Says that the date is behind, and whether the store's time goes on without it or stands still.
    fn warn_once(&mut self, date_behind: Span, time_behind: Span) {
        let behind = date_behind.max(time_behind);
        if !std::mem::replace(&mut self.is_behind, behind > BEHIND_MIN) && self.is_behind {
            let seconds = behind.as_micros() / 1_000_000;
            let path = self.path.display();
            match time_behind > BEHIND_MIN {
                true => tracing::warn!(
                    %path, seconds,
                    "the clock is behind the newest time in the state file; until it gets there, accounts stand still and \
                     denials last that much longer. Correct the clock, or remove the file to reset all usage"
                ),
                false => tracing::warn!(
                    %path, seconds,
                    "the clock is behind the newest time in the state file, so time goes on from there: limits hold, and \
                     windows end that much earlier by the clock. Correct the clock, or remove the file to reset all usage"
                ),
            }
        }
    }

    /// Applies a batch in memory. It takes effect only once [`State::write`] succeeds.
    pub(super) fn apply(
        &mut self,
        batch: &[Operation],
        now: Timestamp,
        guard: &LockGuard<'_>,
    ) -> Result<Outcomes, FileError> {
        self.ensure_loaded(guard)?;
        if !self.accounts.make_room(batch, now) {
            return Err(FileError::Full(self.path.clone()));
        }
        Ok(batch.iter().map(|operation| self.accounts.apply(operation, now)).collect())
    }

    /// All settings.
    pub(super) fn settings(&mut self, guard: &LockGuard<'_>) -> Result<&[Setting], FileError> {
        self.ensure_loaded(guard)?;
        Ok(self.accounts.settings())
    }

    /// Lists accounts.
    pub(super) fn list(
        &mut self,
        policy: Option<&Name>,
        at_most: usize,
        now: Timestamp,
        guard: &LockGuard<'_>,
    ) -> Result<AccountList, FileError> {
        self.ensure_loaded(guard)?;
        Ok(self.accounts.list(policy, at_most, now))
    }

    /// Changes the setting of a limit in memory. It takes effect only once [`State::write`] succeeds.
    pub(super) fn change(
        &mut self,
        change: SettingChange,
        now: Timestamp,
        guard: &LockGuard<'_>,
    ) -> Result<(), StoreError> {
        self.ensure_loaded(guard).map_err(|error| error.answer())?;
        self.accounts.change(change, now)
    }

    /// Reloads the file after a failed write.
    fn ensure_loaded(&mut self, guard: &LockGuard<'_>) -> Result<(), FileError> {
        if self.log.is_none() { self.reload(guard) } else { Ok(()) }
    }

    /// Whether the unwritten changes are large enough to be written before the next command.
    pub(super) fn should_write(&self) -> bool {
        self.accounts.changed_bytes() > RECORD_BYTES_SOFT
    }

    /// Writes all changes as one record. If that fails, none of them takes effect.
    pub(super) fn write(&mut self, now: Timestamp, guard: &LockGuard<'_>) -> Result<(), FileError> {
        let written = self.try_write(now, guard);
        match &written {
            Ok(()) => self.accounts.written(),
            Err(_) => self.unload(),
        }
        written
    }

    fn try_write(&mut self, now: Timestamp, guard: &LockGuard<'_>) -> Result<(), FileError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let changes = self.accounts.changes();
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
        // Compaction writes the changes too. It is useless unless it leaves room for many more.
        if self.accounts.live_bytes(now) > FILE_BYTES_MAX / 2 {
            return Err(FileError::TooLarge(self.path.clone()));
        }
        self.compact(now, guard)
    }

    /// Compacts the file if it is much larger than its live accounts need.
    ///
    /// After a failure the larger file stays valid; the next try waits until the file has grown.
    pub(super) fn compact_if_worthwhile(&mut self, now: Timestamp, guard: &LockGuard<'_>) {
        let Some(size) = self.log.as_ref().map(Log::size) else { return };
        if size <= self.count_at {
            return;
        }
        self.count_at = size.saturating_add(COMPACT_BYTES_MIN.max(size / COMPACT_FACTOR));
        if size > self.accounts.live_bytes(now).saturating_mul(COMPACT_FACTOR)
            && let Err(error) = self.compact(now, guard)
        {
            tracing::warn!(%error, "could not compact the state file; it keeps growing");
        }
    }

    fn compact(&mut self, now: Timestamp, _: &LockGuard<'_>) -> Result<(), FileError> {
        let Some(log) = &self.log else { return Ok(()) };
        self.accounts.delete_expired(now);
        self.log = Some(log.replace(self.accounts.records())?);
        self.count_at = COMPACT_BYTES_MIN;
        Ok(())
    }
}
