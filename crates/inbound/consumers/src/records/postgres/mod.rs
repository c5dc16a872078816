//! Records in Postgres, for servers on any number of machines.
//!
//! One thread and one connection serve a process. Each request is one statement, and many are in flight at once. The same
//! connection listens for changes: while it is lost nothing can be read, and earlier reads count as stale.
//!
//! The URL is Postgres's own (`postgres://user:password@host/database`), with two extra parameters: `schema` (default
//! `tollway`, created if missing) and `sslrootcert`, a file with the certificates to trust if `sslmode=require`. A pooler
//! must use session mode, or `LISTEN` does not work.

mod error;
mod link;
mod place;
mod schema;
mod session;
mod table;

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, oneshot, watch};
use tollway_core::Retry;

use self::link::Link;
use self::place::Place;
use self::session::Session;
use super::changes::Changes;
use super::{Consumer, Generation, Records, RecordsAnswer, RecordsError, RecordsFault};
use crate::consumer_id::ConsumerId;
use crate::record::{Draft, Record, RecordId};

/// How many requests may be queued. One more is an error; callers never block.
const WAITING_MAX: usize = 1_024;

/// How many requests are in flight on the connection at once.
const UNDER_WAY_MAX: usize = 256;

/// A request, called with the session or with the reason why there is none.
type Question = Box<dyn FnOnce(Result<Arc<Session>, RecordsError>) -> Answering + Send>;

type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Records in Postgres.
pub struct PostgresRecords {
    queue: Sender<Question>,
    changes: Changes,
}

impl PostgresRecords {
    /// Records at this URL. It connects in the background; requests wait for the first attempt.
    pub fn connect(url: &str) -> Result<Self, RecordsError> {
        let place: Place = url.parse()?;
        let changes = Changes::new(false);
        let (queue, questions) = channel(WAITING_MAX);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let served = serve(place, changes.clone(), questions);
        let thread = std::thread::Builder::new().name("tollway-records".to_owned());
        thread.spawn(move || runtime.block_on(served)).map_err(no_thread)?;
        Ok(Self { queue, changes })
    }

    fn ask<T: Send + 'static, A: Future<Output = Result<T, RecordsError>> + Send + 'static>(
        &self,
        question: impl FnOnce(Arc<Session>) -> A + Send + 'static,
    ) -> RecordsAnswer<T> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |session| {
            Box::pin(async move {
                let result = match session {
                    Ok(session) => question(session).await,
                    Err(error) => Err(error),
                };
                // The caller may be gone.
                let _ = answer.send(result);
            })
        });
        let asked = self.queue.try_send(question).map_err(|_| RecordsError::busy(WAITING_MAX));
        Box::pin(async move {
            asked?;
            answered.await.unwrap_or_else(|_| Err(RecordsError::closed()))
        })
    }

    /// Makes a change, and notifies watchers before it responds.
    fn write<T: Send + 'static, A: Future<Output = Result<T, RecordsError>> + Send + 'static>(
        &self,
        change: impl FnOnce(Arc<Session>) -> A + Send + 'static,
    ) -> RecordsAnswer<T> {
        let changes = self.changes.clone();
        self.ask(move |session| async move {
            let changed = change(session).await;
            // A caller error changed nothing; after any other error a change is possible.
            if !changed.as_ref().is_err_and(RecordsError::is_callers) {
                changes.moved();
            }
            changed
        })
    }
}

/// Serves requests until the records are dropped; then the connection ends with the runtime.
async fn serve(place: Place, changes: Changes, mut questions: Receiver<Question>) {
    let link = Link::keep(place, changes);
    let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    while let Some(question) = questions.recv().await {
        let Ok(room) = Arc::clone(&room).acquire_owned().await else { return };
        let link = link.clone();
        tokio::spawn(async move {
            question(link.session().await).await;
            drop(room);
        });
    }
}

fn no_thread(error: std::io::Error) -> RecordsError {
    let message = format!("cannot start a thread for records: {error}");
    RecordsError { fault: RecordsFault::Storage, retry: Retry::Safe, message }
}

impl Records for PostgresRecords {
    fn consumer(&self, consumer: &ConsumerId) -> RecordsAnswer<Consumer> {
        let consumer = consumer.clone();
        self.ask(move |session| async move { table::consumer(&session, &consumer).await })
    }

    fn consumers(&self, after: Option<&ConsumerId>, limit: usize) -> RecordsAnswer<Vec<ConsumerId>> {
        let after = after.cloned();
        self.ask(move |session| async move { table::consumers(&session, after.as_ref(), limit).await })
    }

    fn create(&self, draft: Draft) -> RecordsAnswer<Record> {
        self.write(move |session| async move { table::create(&session, draft).await })
    }

    fn change(&self, id: RecordId, draft: Draft) -> RecordsAnswer<Record> {
        self.write(move |session| async move { table::change(&session, id, draft).await })
    }

    fn delete(&self, consumer: &ConsumerId, id: RecordId) -> RecordsAnswer<()> {
        let consumer = consumer.clone();
        self.write(move |session| async move { table::delete(&session, &consumer, id).await })
    }

    fn set_blocked(&self, consumer: &ConsumerId, blocked: bool) -> RecordsAnswer<()> {
        let consumer = consumer.clone();
        self.write(move |session| async move { table::set_blocked(&session, &consumer, blocked).await })
    }

    fn changes(&self) -> watch::Receiver<Generation> {
        self.changes.watch()
    }
}
