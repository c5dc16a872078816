//! The one thread that writes: it commits all operations that wait in one transaction.
//!
//! While a commit waits for the disk, further operations queue up; they are the next transaction. So an idle engine answers
//! after one sync, and a busy one shares a sync among hundreds of callers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};
use tollway_core::Retry;

use super::clock::KeptClock;
use super::error::{Failure, concerns_all, storage};
use super::session::Session;
use super::trouble::Trouble;
use crate::{EngineAnswer, EngineError, EngineFault};

/// The most operations in one transaction: a bound for the memory it takes, far above the number of workers.
const OPERATIONS_MAX: usize = 1_000;

/// How long a transaction takes more operations. Longer would delay the first caller more than a sync does.
const COLLECT_FOR: Duration = Duration::from_millis(5);

/// How many operations may be queued. One more is an error; callers never block.
const QUEUED_MAX: usize = 8_192;

/// How many bytes of jobs may be queued, for the memory of the process.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// After how long without an operation the log is written back. Shorter than most pauses of an operator, longer than those
/// of a worker that waits for its quota.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(1);

/// How much durability an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Survives the death of the process. For claims and renewals.
    Process,
    /// Survives a power cut.
    Machine,
}

/// A handle to the thread, which ends after its last clone is dropped and its queue is empty.
#[derive(Clone)]
pub(super) struct Writer {
    queue: SyncSender<Queued>,
    queued_bytes: Arc<AtomicUsize>,
}

struct Queued {
    durability: Durability,
    bytes: usize,
    operation: Box<dyn Operation>,
}

/// An operation whose answer is kept back until it is committed.
trait Operation: Send {
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure>;
    fn answer(self: Box<Self>, committed: Result<(), EngineError>);
}

struct Call<T, F> {
    run: Option<F>,
    outcome: Option<T>,
    caller: oneshot::Sender<Result<T, EngineError>>,
}

impl<T: Send, F: FnOnce(&mut Session<'_>) -> Result<T, Failure> + Send> Operation for Call<T, F> {
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        if let Some(run) = self.run.take() {
            self.outcome = Some(run(session)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), EngineError>) {
        let Self { outcome, caller, .. } = *self;
        // The caller may be gone.
        let _ = caller.send(committed.and_then(|()| outcome.ok_or_else(closed)));
    }
}

impl Writer {
    /// Starts the thread. `hints` changes after commits that may have made jobs ready.
    pub(super) fn start(
        connection: Connection,
        clock: Option<KeptClock>,
        hints: watch::Sender<u64>,
    ) -> Result<(Self, std::thread::JoinHandle<()>), EngineError> {
        let (queue, queued) = sync_channel(QUEUED_MAX);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let bytes = queued_bytes.clone();
        let thread = std::thread::Builder::new()
            .name("tollway-jobs-write".to_owned())
            .spawn(move || serve(&connection, clock, &queued, &bytes, &hints))
            .map_err(|error| EngineError::storage(Retry::Safe, format!("cannot start a thread: {error}")))?;
        Ok((Self { queue, queued_bytes }, thread))
    }

    /// Queues an operation, which brings this many bytes.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        durability: Durability,
        bytes: usize,
        run: impl FnOnce(&mut Session<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> EngineAnswer<T> {
        let (caller, answered) = oneshot::channel();
        let operation = Box::new(Call { run: Some(run), outcome: None, caller });
        let asked = self.queue(Queued { durability, bytes, operation });
        Box::pin(async move {
            asked?;
            answered.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    fn queue(&self, queued: Queued) -> Result<(), EngineError> {
        let bytes = queued.bytes;
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before == 0 || before + bytes <= QUEUED_BYTES_MAX;
        if fits && self.queue.try_send(queued).is_ok() {
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

fn serve(
    connection: &Connection,
    clock: Option<KeptClock>,
    queued: &Receiver<Queued>,
    queued_bytes: &AtomicUsize,
    hints: &watch::Sender<u64>,
) {
    let mut session = Session::new(connection, clock);
    let mut waiting: VecDeque<Queued> = VecDeque::new();
    let mut durability = Durability::Machine;
    let mut storing = Trouble::new("jobs cannot be stored");
    let mut writing_back = Trouble::new("the log cannot be written back into the file; it stays longer");
    loop {
        if waiting.is_empty() {
            match next(connection, queued, &mut writing_back) {
                Some(first) => waiting.push_back(first),
                None => return,
            }
        }
        while waiting.len() < OPERATIONS_MAX
            && let Ok(next) = queued.try_recv()
        {
            waiting.push_back(next);
        }
        let needed = match waiting.iter().all(|queued| queued.durability == Durability::Process) {
            true => Durability::Process,
            false => Durability::Machine,
        };
        let mut batch = Batch::default();
        let mut committed = set_durability(connection, &mut durability, needed);
        if committed.is_ok() {
            committed = commit(&mut session, &mut waiting, &mut batch);
        } else if let Some(first) = waiting.pop_front() {
            batch.0.push((first, Ok(())));
        }
        storing.tried(&committed);
        let woke = std::mem::take(&mut session.woke) && committed.is_ok();
        batch.answer(&committed, queued_bytes);
        if woke {
            hints.send_modify(|hint| *hint = hint.wrapping_add(1));
        }
    }
}

/// Waits for an operation; none: every handle is gone. When none comes for a while, writes the log back into the file, so
/// that the next burst need not. Readers are not waited for.
fn next(connection: &Connection, queued: &Receiver<Queued>, writing_back: &mut Trouble) -> Option<Queued> {
    match queued.recv_timeout(CHECKPOINT_AFTER) {
        Ok(first) => return Some(first),
        Err(RecvTimeoutError::Disconnected) => return None,
        Err(RecvTimeoutError::Timeout) => {}
    }
    writing_back.tried(&connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
    queued.recv().ok()
}

/// The operations of a transaction, each with its own failure.
#[derive(Default)]
struct Batch(Vec<(Queued, Result<(), EngineError>)>);

impl Batch {
    fn answer(self, committed: &Result<(), EngineError>, queued_bytes: &AtomicUsize) {
        for (queued, alone) in self.0 {
            queued_bytes.fetch_sub(queued.bytes, Ordering::Relaxed);
            queued.operation.answer(alone.and_then(|()| committed.clone()));
        }
    }
}

fn set_durability(
    connection: &Connection,
    current: &mut Durability,
    needed: Durability,
) -> Result<(), EngineError> {
    if *current != needed {
        let synchronous = match needed {
            Durability::Process => "NORMAL",
            Durability::Machine => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous).map_err(|error| storage(&error))?;
        *current = needed;
    }
    Ok(())
}

/// Runs what waits in one transaction. Afterwards `batch` has the operations that it held, whether it was committed or not.
fn commit(
    session: &mut Session<'_>,
    waiting: &mut VecDeque<Queued>,
    batch: &mut Batch,
) -> Result<(), EngineError> {
    let connection = session.connection;
    let committed = connection
        .prepare_cached("BEGIN IMMEDIATE")
        .and_then(|mut begin| begin.execute([]))
        .map_err(Failure::from)
        .and_then(|_| run_all(session, waiting, batch))
        .and_then(|()| session.write_counters().map_err(Failure::from))
        .and_then(|()| session.write_clock().map_err(Failure::from))
        .and_then(|()| Ok(connection.prepare_cached("COMMIT")?.execute([]).map(drop)?));
    let Err(failure) = committed else { return Ok(()) };
    // `BEGIN` may have failed with every operation still waiting: its first caller hears of it.
    if batch.0.is_empty()
        && let Some(first) = waiting.pop_front()
    {
        batch.0.push((first, Ok(())));
    }
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::warn!(%error, "cannot roll back; the next transaction will fail, too");
    }
    session.forget();
    Err(match failure {
        Failure::Alone(error) => error,
        Failure::Sqlite(error) => storage(&error),
    })
}

// The time a transaction has taken is no time of a job.
#[allow(clippy::disallowed_methods)]
fn run_all(
    session: &mut Session<'_>,
    waiting: &mut VecDeque<Queued>,
    batch: &mut Batch,
) -> Result<(), Failure> {
    let started = Instant::now();
    while batch.0.len() < OPERATIONS_MAX
        && (batch.0.is_empty() || started.elapsed() < COLLECT_FOR)
        && let Some(mut queued) = waiting.pop_front()
    {
        let ran = run_alone(session, queued.operation.as_mut());
        let (alone, all) = match ran {
            Ok(()) => (Ok(()), None),
            Err(Failure::Alone(error)) => (Err(error), None),
            Err(Failure::Sqlite(error)) => (Ok(()), Some(error)),
        };
        batch.0.push((queued, alone));
        if let Some(error) = all {
            return Err(Failure::Sqlite(error));
        }
    }
    Ok(())
}

/// Runs one operation, whose failure undoes only itself, unless it concerns all.
fn run_alone(session: &mut Session<'_>, operation: &mut dyn Operation) -> Result<(), Failure> {
    let connection = session.connection;
    connection.prepare_cached("SAVEPOINT operation")?.execute([])?;
    let mark = session.mark();
    let alone = match operation.run(session).and_then(|()| session.release_groups()) {
        Ok(()) => {
            connection.prepare_cached("RELEASE operation")?.execute([])?;
            return Ok(());
        }
        Err(Failure::Sqlite(error)) if concerns_all(&error) || connection.is_autocommit() => {
            return Err(Failure::Sqlite(error));
        }
        Err(Failure::Sqlite(error)) => storage(&error),
        Err(Failure::Alone(error)) => error,
    };
    session.back_to(mark);
    connection.prepare_cached("ROLLBACK TO operation")?.execute([])?;
    connection.prepare_cached("RELEASE operation")?.execute([])?;
    Err(Failure::Alone(alone))
}

fn closed() -> EngineError {
    EngineError::storage(Retry::Unclear, "the engine was closed")
}
