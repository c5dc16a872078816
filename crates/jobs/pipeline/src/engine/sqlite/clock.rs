//! The engine's time, which goes on though the machine's date was set back. The file keeps from where.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use tollway_core::{Clock, Span, TimeAnchor, Timestamp};
use tollway_memory::StateClock;

use super::file;
use super::rows::{micros, time};
use crate::EngineError;

/// How old the reading in the file may become. After a reboot with a date that is behind, this much time may pass again.
const STORE_EVERY: Span = Span::from_mins(1);

/// The engine's time.
pub(super) struct EngineClock(Arc<StateClock>);

/// What the file keeps of it, for the thread that writes.
pub(super) struct KeptClock {
    clock: Arc<StateClock>,
    stored: Option<TimeAnchor>,
}

impl EngineClock {
    pub(super) fn new(machine: Arc<dyn Clock>) -> Self {
        Self(Arc::new(StateClock::new(machine)))
    }

    /// Goes on from what the file says.
    pub(super) fn resume(&self, connection: &Connection) -> rusqlite::Result<KeptClock> {
        // The date counts now, and never again: claims must not expire because it is set forward.
        self.0.at_least(self.0.date());
        let stored = read(connection)?;
        let newest = match stored {
            Some(stored) => stored.at,
            None => newest(connection)?,
        };
        self.0.resume(stored, newest);
        Ok(KeptClock { clock: self.0.clone(), stored })
    }

    /// The time for a caller whose clock shows `now`.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        self.0.at_least(now)
    }
}

impl KeptClock {
    /// Writes from where to go on, with a transaction that writes anyway, if the file does not say it or said it long ago.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let time = self.clock.at_least(Timestamp::EPOCH);
        let current = self.stored.filter(|stored| time.since(stored.at) < STORE_EVERY);
        let Some(new) = self.clock.to_store(current, time) else { return Ok(()) };
        let TimeAnchor { boot, since_boot, at } = new.anchor;
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO clock (only, boot, since_boot, at) VALUES (1, ?1, ?2, ?3)",
            )?
            .execute(params![boot.to_string(), since_boot.as_micros(), micros(at)])?;
        self.stored = Some(new.anchor);
        Ok(())
    }

    /// The transaction was undone: what it wrote is not known.
    pub(super) fn forget(&mut self) {
        self.stored = None;
    }
}

/// The time of the jobs in a file, while no process or another one works on them. `None`: there is no file yet.
pub(super) fn time_in(path: &Path, machine: Arc<dyn Clock>) -> Result<Option<Timestamp>, EngineError> {
    if !path.exists() {
        return Ok(None);
    }
    let connection = file::open_reader(path)?;
    let clock = EngineClock::new(machine);
    // An earlier version has no table for it.
    let _ = clock.resume(&connection);
    Ok(Some(clock.0.now()))
}

/// None: the file is new, or of an earlier version.
fn read(connection: &Connection) -> rusqlite::Result<Option<TimeAnchor>> {
    let row = connection
        .query_row("SELECT boot, since_boot, at FROM clock", [], |row| {
            let boot: String = row.get(0)?;
            let since_boot = Span::from_micros(row.get(1)?);
            Ok(boot.parse().ok().map(|boot| (boot, since_boot, row.get(2))))
        })
        .optional()?;
    let Some((boot, since_boot, at)) = row.flatten() else { return Ok(None) };
    Ok(Some(TimeAnchor { boot, since_boot, at: time(at?) }))
}

/// The newest time that costs nothing to find, in a file of an earlier version: a runner of it kept a sample a minute.
fn newest(connection: &Connection) -> rusqlite::Result<Timestamp> {
    let newest = connection.query_row(
        "SELECT max((SELECT coalesce(max(at), 0) FROM samples),
                    coalesce((SELECT changed_at FROM jobs ORDER BY id DESC LIMIT 1), 0))",
        [],
        |row| row.get(0),
    )?;
    Ok(time(newest))
}
