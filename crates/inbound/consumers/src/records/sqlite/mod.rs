//! Records in a SQLite file, for the servers of one machine, or in memory.
//!
//! Two threads serve a file: one writes, one reads and watches for changes by other processes. In memory, one thread does
//! both.
//!
//! # Why not WAL
//!
//! SQLite before 3.51.3 has a bug in its write-ahead log that can lose commits if one process writes while another
//! checkpoints. The bundled SQLite has the fix, but older versions may open the file: an earlier Tollway, or a system tool.
//! The rollback journal is not affected. Records change rarely and are read from a cache, so the speed of WAL is not needed.

mod connection_thread;
mod error;
mod file;
mod schema;
mod table;

use rusqlite::Connection;
use tokio::sync::watch;

use self::connection_thread::{ConnectionThread, ForeignChanges};
use super::changes::Changes;
use super::{Consumer, Generation, Records, RecordsAnswer, RecordsError};
use crate::consumer_id::ConsumerId;
use crate::record::{Draft, Record, RecordId};

/// Records in SQLite.
pub struct SqliteRecords {
    writer: ConnectionThread,
    reader: ConnectionThread,
    changes: Changes,
}

impl SqliteRecords {
    /// Opens or creates `sqlite:PATH`; or `sqlite::memory:`, which is gone with this value.
    pub fn open(url: &str) -> Result<Self, RecordsError> {
        let changes = Changes::new(true);
        let place = url.strip_prefix("sqlite:").unwrap_or(url);
        if place == ":memory:" {
            let thread = ConnectionThread::start("tollway-records", file::open_memory()?, None)?;
            return Ok(Self { writer: thread.clone(), reader: thread, changes });
        }
        let writer =
            ConnectionThread::start("tollway-records-write", file::open(place, file::WRITE_WITHIN)?, None)?;
        let connection = file::open(place, file::READ_WITHIN)?;
        let others = ForeignChanges::new(changes.clone(), &connection)?;
        let reader = ConnectionThread::start("tollway-records-read", connection, Some(others))?;
        Ok(Self { writer, reader, changes })
    }

    /// Makes a change, and notifies watchers before it responds.
    fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Connection) -> Result<T, RecordsError> + Send + 'static,
    ) -> RecordsAnswer<T> {
        let changes = self.changes.clone();
        self.writer.ask(move |connection| {
            let changed = change(connection);
            // A caller error changed nothing; after any other error a change is possible.
            if !changed.as_ref().is_err_and(RecordsError::is_callers) {
                changes.moved();
            }
            changed
        })
    }
}

impl Records for SqliteRecords {
    fn consumer(&self, consumer: &ConsumerId) -> RecordsAnswer<Consumer> {
        let consumer = consumer.clone();
        self.reader.ask(move |connection| table::consumer(connection, &consumer))
    }

    fn consumers(&self, after: Option<&ConsumerId>, limit: usize) -> RecordsAnswer<Vec<ConsumerId>> {
        let after = after.cloned();
        self.reader.ask(move |connection| table::consumers(connection, after.as_ref(), limit))
    }

    fn create(&self, draft: Draft) -> RecordsAnswer<Record> {
        self.write(move |connection| table::create(connection, draft))
    }

    fn change(&self, id: RecordId, draft: Draft) -> RecordsAnswer<Record> {
        self.write(move |connection| table::change(connection, id, draft))
    }

    fn delete(&self, consumer: &ConsumerId, id: RecordId) -> RecordsAnswer<()> {
        let consumer = consumer.clone();
        self.write(move |connection| table::delete(connection, &consumer, id))
    }

    fn set_blocked(&self, consumer: &ConsumerId, blocked: bool) -> RecordsAnswer<()> {
        let consumer = consumer.clone();
        self.write(move |connection| table::set_blocked(connection, &consumer, blocked))
    }

    fn changes(&self) -> watch::Receiver<Generation> {
        let watch = self.changes.watch();
        self.reader.wake();
        watch
    }
}
