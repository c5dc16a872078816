//! Group commit: all operations of a kind that wait share one transaction.
//!
//! Each kind has a lane. While every connection is busy, operations queue up; the next free connection carries all that
//! fit together. So an idle engine answers after one commit, and a busy one shares a commit among many callers.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tollway_core::{Retry, StoreError};
use tollway_postgres_link::{Pool, PooledSession};

use super::error::Failure;
use super::session::Session;
use crate::{EngineAnswer, EngineError, EngineFault};

/// How many operations share a transaction: as many as workers at once. With 128 workers, sharing does 6,500 claims and
/// hand-offs a second where a transaction for each does 600 on 4 connections and 1,250 on 16.
const OPERATIONS_MAX: usize = 256;

/// How many operations of a kind may be queued. One more is an error; callers never block.
const QUEUED_MAX: usize = 8_192;

/// How many bytes of jobs may be queued, for the memory of the process.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// How often a transaction that lost against others is tried again.
const TRIES: u32 = 6;

/// How long a transaction may take: longer than the server lets a statement run.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);

/// What a lane carries.
pub(super) trait Operation: Send + Sync + Sized + 'static {
    /// What the caller hears.
    type Answer: Send + 'static;

    /// How many bytes it brings.
    fn bytes(&self) -> usize {
        0
    }

    /// Whether it can share the transaction of these.
    fn joins(&self, others: &[&Self]) -> bool;

    /// Runs some in one transaction. Answers for each, and whether a job may have become ready.
    fn run(
        session: &Session,
        operations: &[&Self],
    ) -> impl Future<Output = Result<(Vec<Self::Answer>, bool), Failure>> + Send;
}

struct Call<O: Operation> {
    operation: O,
    caller: oneshot::Sender<Result<O::Answer, EngineError>>,
}

/// Where operations of one kind queue.
pub(super) struct Lane<O: Operation> {
    queue: mpsc::Sender<Call<O>>,
    queued_bytes: Arc<AtomicUsize>,
}

/// What all lanes share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) pool: Arc<Pool<Session>>,
    pub(super) queued_bytes: Arc<AtomicUsize>,
    pub(super) hints: watch::Sender<u64>,
}

impl<O: Operation> Lane<O> {
    /// A lane, and the task that serves it. The task ends when the lane is dropped and its queue is empty.
    pub(super) fn new(shared: &Shared) -> (Self, impl Future<Output = ()> + Send + use<O>) {
        let (queue, queued) = mpsc::channel(QUEUED_MAX);
        let lane = Self { queue, queued_bytes: shared.queued_bytes.clone() };
        (lane, serve(queued, shared.clone()))
    }

    /// Queues an operation.
    pub(super) fn ask(&self, operation: O) -> EngineAnswer<O::Answer> {
        let (caller, answered) = oneshot::channel();
        let asked = self.queue(Call { operation, caller });
        Box::pin(async move {
            asked?;
            answered.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    fn queue(&self, call: Call<O>) -> Result<(), EngineError> {
        let bytes = call.operation.bytes();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before == 0 || before + bytes <= QUEUED_BYTES_MAX;
        if fits && self.queue.try_send(call).is_ok() {
            return Ok(());
        }
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let message = format!(
            "{QUEUED_MAX} operations or {} MiB of jobs wait to be written; try again later",
            QUEUED_BYTES_MAX >> 20
        );
        Err(EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message })
    }
}

async fn serve<O: Operation>(mut queued: mpsc::Receiver<Call<O>>, shared: Shared) {
    let mut waiting: VecDeque<Call<O>> = VecDeque::new();
    let mut running = JoinSet::new();
    loop {
        while running.try_join_next().is_some() {}
        if waiting.is_empty() {
            match queued.recv().await {
                Some(first) => waiting.push_back(first),
                None => break,
            }
        }
        let lease = shared.pool.lease().await;
        while waiting.len() < QUEUED_MAX
            && let Ok(next) = queued.try_recv()
        {
            waiting.push_back(next);
        }
        let batch = take_batch(&mut waiting);
        let shared = shared.clone();
        running.spawn(async move {
            let operations: Vec<&O> = batch.iter().map(|call| &call.operation).collect();
            let answers = match lease {
                Ok(lease) => run(lease, &shared, &operations).await,
                Err(error) => same(&Failure::Postgres(error), operations.len()),
            };
            for (call, answer) in batch.into_iter().zip(answers) {
                shared.queued_bytes.fetch_sub(call.operation.bytes(), Ordering::Relaxed);
                // The caller may be gone.
                let _ = call.caller.send(answer);
            }
        });
    }
    while running.join_next().await.is_some() {}
}

/// The first that waits, and the others that can share its transaction.
fn take_batch<O: Operation>(waiting: &mut VecDeque<Call<O>>) -> Vec<Call<O>> {
    let mut batch: Vec<Call<O>> = Vec::new();
    let mut left = VecDeque::new();
    while let Some(call) = waiting.pop_front() {
        let others: Vec<&O> = batch.iter().map(|call| &call.operation).collect();
        let fits = batch.is_empty() || (batch.len() < OPERATIONS_MAX && call.operation.joins(&others));
        if fits {
            batch.push(call)
        } else {
            left.push_back(call)
        }
        if batch.len() >= OPERATIONS_MAX || left.len() >= OPERATIONS_MAX {
            break;
        }
    }
    while let Some(call) = left.pop_back() {
        waiting.push_front(call);
    }
    batch
}

/// Runs a batch. If one operation of it is wrong, each runs alone, so that only that one fails.
async fn run<O: Operation>(
    lease: PooledSession<Session>,
    shared: &Shared,
    operations: &[&O],
) -> Vec<Result<O::Answer, EngineError>> {
    let failure = match attempt(lease, shared, operations).await {
        Ok(answers) => return answers.into_iter().map(Ok).collect(),
        Err(failure) => failure,
    };
    if operations.len() == 1 || !failure.is_of_one() {
        return same(&failure, operations.len());
    }
    let mut answers = Vec::with_capacity(operations.len());
    for &operation in operations {
        let alone = match shared.pool.lease().await {
            Ok(lease) => attempt(lease, shared, &[operation]).await,
            Err(error) => Err(Failure::Postgres(error)),
        };
        answers.push(alone.map_err(Failure::answer).and_then(|mut answers| answers.pop().ok_or_else(closed)));
    }
    answers
}

/// Runs operations in one transaction, again if others were in the way.
async fn attempt<O: Operation>(
    mut lease: PooledSession<Session>,
    shared: &Shared,
    operations: &[&O],
) -> Result<Vec<O::Answer>, Failure> {
    let mut tries = 0;
    loop {
        let ran = tokio::time::timeout(ANSWER_WITHIN, O::run(lease.session(), operations)).await;
        let failure = match ran.unwrap_or_else(|_| Err(Failure::silence())) {
            Ok((answers, woke)) => {
                lease.return_to_pool();
                if woke {
                    shared.hints.send_modify(|hint| *hint = hint.wrapping_add(1));
                }
                return Ok(answers);
            }
            Err(failure) => lease.session().explain(failure),
        };
        give_back(lease, &failure).await;
        tries += 1;
        if !failure.is_contention() || tries == TRIES {
            return Err(failure);
        }
        tracing::debug!(?failure, tries, "other transactions were in the way; trying again");
        tokio::time::sleep(Duration::from_millis(5 << tries)).await;
        lease = shared.pool.lease().await.map_err(Failure::Postgres)?;
    }
}

/// After a failure: the session goes on if its transaction can be ended.
pub(super) async fn give_back(lease: PooledSession<Session>, failure: &Failure) {
    let refused =
        StoreError { fault: tollway_core::Fault::Caller, retry: Retry::Useless, message: String::new() };
    let error = match failure {
        Failure::Alone(_) => &refused,
        Failure::Postgres(error) => error,
    };
    lease.return_to_pool_after(error).await;
}

fn same<T>(failure: &Failure, count: usize) -> Vec<Result<T, EngineError>> {
    let error = failure.clone().answer();
    (0..count).map(|_| Err(error.clone())).collect()
}

pub(super) fn closed() -> EngineError {
    EngineError::storage(Retry::Unclear, "the engine was closed")
}
