//! Combines single entries into the batches of ten that SQS takes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tollway_core::Retry;
use tollway_pipeline::EngineError;

use super::error::storage;

/// How many entries SQS takes in one request.
pub(super) const BATCH: usize = 10;

/// How many bytes SQS takes in one request, less what the request itself needs.
const BATCH_BYTES: usize = (1 << 20) - (8 << 10);

/// How many entries may wait in a lane. A caller beyond it waits itself.
const WAITING_MAX: usize = 10_000;

/// How many requests of a lane may be out at a time.
const REQUESTS_MAX: usize = 8;

/// The outcome of each entry of a batch, in order.
pub(super) type BatchAnswer = Pin<Box<dyn Future<Output = Vec<Result<(), EngineError>>> + Send>>;

/// An entry, and who waits for it.
struct Entry<T> {
    value: T,
    bytes: usize,
    answer: oneshot::Sender<Result<(), EngineError>>,
}

enum Order<T> {
    Entry(Entry<T>),
    Flush(oneshot::Sender<()>),
}

/// Entries of one kind for one queue.
pub(super) struct Lane<T> {
    orders: mpsc::Sender<Order<T>>,
}

/// The answer for one entry.
pub(super) struct Receipt(oneshot::Receiver<Result<(), EngineError>>);

impl Receipt {
    pub(super) async fn wait(self) -> Result<(), EngineError> {
        self.0.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> EngineError {
    storage(Retry::Unclear, "SQS: the process ends")
}

impl<T: Send + 'static> Lane<T> {
    /// A lane that sends a batch when it is full, or when its oldest entry has waited for `linger`.
    pub(super) fn start(
        linger: Duration,
        send: impl Fn(Vec<T>) -> BatchAnswer + Send + Sync + 'static,
    ) -> Self {
        let (orders, incoming) = mpsc::channel(WAITING_MAX);
        tokio::spawn(run(incoming, linger, Arc::new(send)));
        Self { orders }
    }

    /// Hands an entry over. The answer comes when its batch is answered.
    pub(super) async fn push(&self, value: T, bytes: usize) -> Receipt {
        let (answer, receipt) = oneshot::channel();
        // Without the lane's task, the receipt says so.
        let _ = self.orders.send(Order::Entry(Entry { value, bytes, answer })).await;
        Receipt(receipt)
    }

    /// Sends what waits, and waits until it is answered.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.orders.send(Order::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }
}

async fn run<T: Send + 'static, S>(mut incoming: mpsc::Receiver<Order<T>>, linger: Duration, send: Arc<S>)
where
    S: Fn(Vec<T>) -> BatchAnswer + Send + Sync + 'static,
{
    let places = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut over: Option<Entry<T>> = None;
    loop {
        let first = match over.take() {
            Some(entry) => Order::Entry(entry),
            None => match incoming.recv().await {
                Some(order) => order,
                None => return,
            },
        };
        let mut flushed = None;
        let mut batch = Vec::new();
        match first {
            Order::Entry(entry) => batch.push(entry),
            Order::Flush(done) => flushed = Some(done),
        }
        let mut bytes = batch.iter().map(|entry: &Entry<T>| entry.bytes).sum::<usize>();
        let deadline = Instant::now() + linger;
        while flushed.is_none() && batch.len() < BATCH {
            match timeout_at(deadline, incoming.recv()).await {
                Ok(Some(Order::Entry(entry))) if bytes + entry.bytes > BATCH_BYTES => {
                    over = Some(entry);
                    break;
                }
                Ok(Some(Order::Entry(entry))) => {
                    bytes += entry.bytes;
                    batch.push(entry);
                }
                Ok(Some(Order::Flush(done))) => flushed = Some(done),
                Ok(None) | Err(_) => break,
            }
        }
        if !batch.is_empty() {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let send = send.clone();
            tokio::spawn(async move {
                answer(batch, &*send).await;
                drop(place);
            });
        }
        if let Some(done) = flushed {
            // All requests that are out have been answered.
            drop(places.acquire_many(u32::try_from(REQUESTS_MAX).unwrap_or(1)).await);
            let _ = done.send(());
        }
    }
}

async fn answer<T, S: Fn(Vec<T>) -> BatchAnswer>(batch: Vec<Entry<T>>, send: &S) {
    let (values, waiting): (Vec<T>, Vec<_>) =
        batch.into_iter().map(|entry| (entry.value, entry.answer)).unzip();
    let answers = send(values).await;
    let mut answers = answers.into_iter();
    for one in waiting {
        let _ = one.send(answers.next().unwrap_or_else(|| Err(gone())));
    }
}
