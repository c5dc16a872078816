//! A thread that owns a SQLite connection and runs jobs from a queue, one after the other.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;
use tollway_core::Retry;

use super::error::storage;
use crate::records::changes::Changes;
use crate::records::{RecordsAnswer, RecordsError, RecordsFault};

/// How many jobs may be queued: a thousand run within a second. One more is an error; callers never block.
const QUEUED_JOBS_MAX: usize = 1_024;

/// How soon a change by another process is seen. A poll locks the file and reads a counter from its cached first page in
/// some tens of microseconds. Without watchers there is no polling.
const LOOK_EVERY: Duration = Duration::from_millis(20);

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle to the thread, which ends after the last clone is dropped and its queue is empty.
#[derive(Clone)]
pub(super) struct ConnectionThread {
    queue: SyncSender<Job>,
}

impl ConnectionThread {
    /// Starts the thread. With `foreign`, it watches for changes that other processes make to the file.
    pub(super) fn start(
        name: &str,
        connection: Connection,
        foreign: Option<ForeignChanges>,
    ) -> Result<Self, RecordsError> {
        let (queue, jobs) = sync_channel(QUEUED_JOBS_MAX);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || serve(connection, &jobs, foreign));
        started.map_err(|error| {
            let message = format!("cannot start a thread for records: {error}");
            RecordsError { fault: RecordsFault::Storage, retry: Retry::Safe, message }
        })?;
        Ok(Self { queue })
    }

    /// Queues a job.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, RecordsError> + Send + 'static,
    ) -> RecordsAnswer<T> {
        let (answer, answered) = oneshot::channel();
        // The caller may be gone.
        let job: Job = Box::new(move |connection| drop(answer.send(job(connection))));
        let asked = self.queue.try_send(job).map_err(|_| RecordsError::busy(QUEUED_JOBS_MAX));
        Box::pin(async move {
            asked?;
            answered.await.unwrap_or_else(|_| Err(RecordsError::closed()))
        })
    }

    /// Wakes the thread, so that it notices new watchers. With a full queue it is awake anyway.
    pub(super) fn wake(&self) {
        let _ = self.queue.try_send(Box::new(|_| ()));
    }
}

fn serve(mut connection: Connection, jobs: &Receiver<Job>, mut foreign: Option<ForeignChanges>) {
    loop {
        let job = match &foreign {
            Some(foreign) if foreign.changes.is_watched() => jobs.recv_timeout(LOOK_EVERY),
            _ => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match job {
            Ok(job) => job(&mut connection),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(foreign) = &mut foreign {
            foreign.look(&connection);
        }
    }
}

/// Detects changes by other connections and processes.
pub(super) struct ForeignChanges {
    changes: Changes,
    seen: i64,
}

impl ForeignChanges {
    pub(super) fn new(changes: Changes, connection: &Connection) -> Result<Self, RecordsError> {
        let seen = data_version(connection).map_err(|error| storage(&error))?;
        Ok(Self { changes, seen })
    }

    fn look(&mut self, connection: &Connection) {
        match data_version(connection) {
            Ok(version) => {
                if !self.changes.is_followed() {
                    self.changes.set_followed(true);
                } else if version != self.seen {
                    self.changes.moved();
                }
                self.seen = version;
            }
            Err(error) if self.changes.is_followed() => {
                tracing::warn!(%error, "cannot poll for changes of records by other processes; the cache is off until polling works");
                self.changes.set_followed(false);
            }
            Err(_) => {}
        }
    }
}

/// A number that changes whenever another connection commits to the file.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
