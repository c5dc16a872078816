//! A [`Store`] built from a [`Link`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tollway_core::bounds::OPERATIONS_PER_BATCH_MAX;
use tollway_core::{
    Answer, Fault, Operation, Outcome, Outcomes, Refusal, Retry, Store, StoreError, StoreResult,
};

use crate::denials::{DENIALS_MAX, Denials};
use crate::driver::Driver;
use crate::lane::{QueuedOperation, Reply};
use crate::{Link, QUEUE_MAX, Tag};

/// How a store across a network is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The deadline within which every caller is answered.
    pub deadline: Duration,
    /// How long a denial is repeated from memory, at most [`DENIALS_MAX`]; zero: each take is a call.
    pub denials: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { deadline: Duration::from_millis(500), denials: DENIALS_MAX }
    }
}

/// A store across a network. It works on its own thread, so it can be used from any executor and from none.
#[derive(Debug)]
pub struct Remote {
    queue: Option<Sender<(Tag, QueuedOperation)>>,
    next_id: AtomicU64,
    denials: Arc<Denials>,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    /// Drives the link on a thread with this name. The link is used on that thread only, within a tokio runtime.
    pub fn start(name: &str, link: Arc<impl Link>, options: Options) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (queue, incoming) = channel(QUEUE_MAX);
        let denials = Arc::new(Denials::new(options.denials));
        let driver = Driver::new(link, options, Arc::clone(&denials));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(driver.run(incoming));
            // A pending name lookup must not delay the thread that closes the store.
            runtime.shutdown_background();
        })?;
        Ok(Self { queue: Some(queue), next_id: AtomicU64::new(0), denials, thread: Some(thread) })
    }

    /// Like [`Store::apply`], for operations that the caller need not keep.
    pub fn apply_owned(&self, batch: impl ExactSizeIterator<Item = Operation>) -> Answer {
        if batch.len() > OPERATIONS_PER_BATCH_MAX {
            let message = format!(
                "{} operations in one batch; at most {OPERATIONS_PER_BATCH_MAX} are allowed",
                batch.len()
            );
            return Answer::now(Err(StoreError { fault: Fault::Caller, retry: Retry::Useless, message }));
        }
        let sent: Vec<_> = batch.map(|operation| self.send(operation)).collect();
        Answer::Later(Box::pin(all_outcomes(sent)))
    }

    fn send(&self, operation: Operation) -> Result<Awaited, StoreError> {
        let Some(tag) = Tag::of(&operation) else {
            return Ok(Awaited::Now(Outcome::Refused(Refusal::ChargeCount(0))));
        };
        if let Some(denied) = self.denials.repeat(&tag, &operation, Instant::now()) {
            return Ok(Awaited::Now(denied));
        }
        self.denials.note_change(&operation);
        let Some(queue) = &self.queue else { return Err(stopped(Retry::Safe)) };
        let (sender, receiver) = oneshot::channel();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let pending = QueuedOperation { id, operation, reply: Reply::new(sender) };
        queue.try_send((tag, pending)).map_err(|error| match error {
            TrySendError::Full(_) => {
                let message = format!("{QUEUE_MAX} operations are already queued for the store");
                StoreError { fault: Fault::Store, retry: Retry::Safe, message }
            }
            TrySendError::Closed(_) => stopped(Retry::Safe),
        })?;
        Ok(Awaited::Later(receiver))
    }
}

/// An outcome, now or later.
enum Awaited {
    Now(Outcome),
    Later(oneshot::Receiver<Result<Outcome, StoreError>>),
}

impl Awaited {
    async fn outcome(self) -> Result<Outcome, StoreError> {
        match self {
            Self::Now(outcome) => Ok(outcome),
            Self::Later(receiver) => receiver.await.unwrap_or_else(|_| Err(stopped(Retry::Unclear))),
        }
    }
}

impl Store for Remote {
    fn apply(&self, batch: &[Operation]) -> Answer {
        // The batch is borrowed: this is the only clone of each operation.
        self.apply_owned(batch.iter().cloned())
    }
}

/// Waits for all outcomes: all operations of the batch were sent, even if the first failed.
async fn all_outcomes(sent: Vec<Result<Awaited, StoreError>>) -> StoreResult {
    let mut outcomes = Outcomes::with_capacity(sent.len());
    let mut failed = None;
    for awaited in sent {
        match async { awaited?.outcome().await }.await {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => failed = Some(worse(failed, error)),
        }
    }
    failed.map_or(Ok(outcomes), Err)
}

/// If a part of a batch failed, all of it may have been applied.
fn worse(known: Option<StoreError>, error: StoreError) -> StoreError {
    match known {
        Some(known) if known.retry == Retry::Unclear => known,
        _ => error,
    }
}

fn stopped(retry: Retry) -> StoreError {
    StoreError { fault: Fault::Store, retry, message: "the store was closed".to_owned() }
}

impl Drop for Remote {
    /// Waits a moment for calls in flight.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The last owner may be a task on this very thread.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
