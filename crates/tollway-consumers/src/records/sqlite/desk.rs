//! A thread with a connection: questions wait in a queue, and are answered one after the other.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;
use tollway_core::Retry;

use super::error::storage;
use crate::records::changes::Changes;
use crate::records::{RecordsAnswer, RecordsError, RecordsFault};

/// How many questions may wait. A thousand are answered within a second; one more is an error, never a block.
const WAITING_MAX: usize = 1_024;

/// How soon a change by another process is seen. To look is to lock the file, read a counter from its first page, which
/// the system has in memory, and let go: some tens of microseconds. So fifty looks a second take a few thousandths of
/// a core at most, and nobody looks while nobody watches.
const LOOK_EVERY: Duration = Duration::from_millis(20);

type Question = Box<dyn FnOnce(&mut Connection) + Send>;

/// Where a thread is asked. It ends with the last clone, when all is answered.
#[derive(Clone)]
pub(super) struct Desk {
    queue: SyncSender<Question>,
}

impl Desk {
    /// Starts a thread. If others may change the same file, it watches for that.
    pub(super) fn start(
        name: &str,
        connection: Connection,
        others: Option<Others>,
    ) -> Result<Self, RecordsError> {
        let (queue, questions) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || serve(connection, &questions, others));
        started.map_err(|error| {
            let message = format!("no thread for records: {error}");
            RecordsError { fault: RecordsFault::Storage, retry: Retry::Safe, message }
        })?;
        Ok(Self { queue })
    }

    /// Has a question answered.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connection) -> Result<T, RecordsError> + Send + 'static,
    ) -> RecordsAnswer<T> {
        let (answer, answered) = oneshot::channel();
        // Whoever has left need not know.
        let question: Question = Box::new(move |connection| drop(answer.send(question(connection))));
        let asked = self.queue.try_send(question).map_err(|_| RecordsError::busy(WAITING_MAX));
        Box::pin(async move {
            asked?;
            answered.await.unwrap_or_else(|_| Err(RecordsError::closed()))
        })
    }

    /// Has the thread look whether somebody watches now. With a full queue it is awake anyway.
    pub(super) fn wake(&self) {
        let _ = self.queue.try_send(Box::new(|_| ()));
    }
}

fn serve(mut connection: Connection, questions: &Receiver<Question>, mut others: Option<Others>) {
    loop {
        let question = match &others {
            Some(others) if others.changes.is_watched() => questions.recv_timeout(LOOK_EVERY),
            _ => questions.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match question {
            Ok(question) => question(&mut connection),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(others) = &mut others {
            others.look(&connection);
        }
    }
}

/// Sees what other connections and processes change.
pub(super) struct Others {
    changes: Changes,
    seen: i64,
}

impl Others {
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
                tracing::warn!(%error, "changes of records by others cannot be seen; nothing cached is used meanwhile");
                self.changes.set_followed(false);
            }
            Err(_) => {}
        }
    }
}

/// A number that is another one whenever anybody else has committed to the file.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
