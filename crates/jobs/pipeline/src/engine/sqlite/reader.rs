//! A thread with the connection that cannot write, so that lists and counts do not delay workers.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;
use tokio::sync::oneshot;
use tollway_core::Retry;

use super::error::{Failure, storage};
use crate::{EngineAnswer, EngineError, EngineFault};

/// How many reads may be queued. One more is an error; callers never block.
const QUEUED_MAX: usize = 256;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// A handle to the thread, which ends after its last clone is dropped.
#[derive(Clone)]
pub(super) struct Reader {
    queue: SyncSender<Read>,
}

impl Reader {
    pub(super) fn start(connection: Connection) -> Result<(Self, std::thread::JoinHandle<()>), EngineError> {
        let (queue, reads): (_, Receiver<Read>) = sync_channel(QUEUED_MAX);
        let thread = std::thread::Builder::new()
            .name("tollway-jobs-read".to_owned())
            .spawn(move || reads.iter().for_each(|read| read(&connection)))
            .map_err(|error| EngineError::storage(Retry::Safe, format!("cannot start a thread: {error}")))?;
        Ok((Self { queue }, thread))
    }

    pub(super) fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> EngineAnswer<T> {
        let (caller, answered) = oneshot::channel();
        let asked = self.queue.try_send(Box::new(move |connection| {
            let answer = read(connection).map_err(|failure| match failure {
                Failure::Alone(error) => error,
                Failure::Sqlite(error) => storage(&error),
            });
            // The caller may be gone.
            let _ = caller.send(answer);
        }));
        let asked = asked.map_err(|_| EngineError {
            fault: EngineFault::Busy,
            retry: Retry::Safe,
            message: format!("{QUEUED_MAX} reads wait already; try again later"),
        });
        Box::pin(async move {
            asked?;
            let closed = || EngineError::storage(Retry::Safe, "the engine was closed");
            answered.await.unwrap_or_else(|_| Err(closed()))
        })
    }
}
