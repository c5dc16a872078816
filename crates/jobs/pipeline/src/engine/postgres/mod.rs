//! Jobs in Postgres, for processes on many machines.
//!
//! One thread with its own runtime carries all calls, so that an engine works in any runtime, and a call goes on when its
//! caller leaves. Each operation is a batch: see `lane.rs` for how they share transactions, `statements.rs` for the SQL.
//!
//! Hints are of this process only. `NOTIFY` would wake others sooner, but every transaction with one takes a lock of the
//! whole server to commit, which costs more than others gain: their next look comes soon.

mod claims;
mod enqueue;
mod error;
mod finish;
mod lane;
mod moving;
mod names;
mod operate;
mod options;
mod read;
mod rows;
mod samples;
mod schema;
mod session;
mod stage_move;
mod statements;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot, watch};
use tollway_core::{Name, Retry, Span, Timestamp};
use tollway_postgres_link::Pool;

use self::claims::{Look, Renewal, Return, Take};
use self::enqueue::Enqueue;
use self::error::Failure;
use self::finish::Finish;
use self::lane::{Lane, Shared, closed, give_back};
use self::options::Options;
use self::session::{Session, SessionOptions};
use super::administration::{
    Administration, Change, Changed, Edit, Edited, Filter, JobResult, Page, Sample, StageChange, StageCounts,
    StageMove, StageSettings,
};
use super::checks::{check, check_stages, refuse, within};
use super::error::{EngineError, EngineFault};
use super::moving::{MovedJob, check_import};
use super::{
    Capabilities, Claim, ClaimRequest, Claimed, Conclusion, Engine, EngineAnswer, Enqueued, Finished, Peek,
};
use crate::bounds::{BATCH_BYTES_MAX, BATCH_MAX, JOB_BYTES_MAX, PAGE_MAX};
use crate::job::attempt::Evidence;
use crate::job::{Job, JobId, NewJob};

/// Connections for lists and counts, which do not delay workers: a long list leaves one for the others.
const READERS: usize = 2;

/// How many calls of operators may run or wait.
const OPERATORS_MAX: usize = 256;

/// How long a call of an operator may take: longer than the server lets a statement run.
const OPERATORS_WITHIN: Duration = Duration::from_secs(65);

/// How often a change that lost against others is tried again.
const TRIES: u32 = 6;

/// Jobs in Postgres: `postgres://user:password@host:port/database?schema=tollway_pipeline`.
///
/// | parameter | meaning | if not given |
/// |---|---|---|
/// | `schema` | where its tables are; made if it is not there | `tollway_pipeline` |
/// | `connections` | how many it opens at most, and two more for lists | 4 |
/// | `sslrootcert` | a file with the certificates to trust, where `sslmode=require` | those of the system |
///
/// Everything else is Postgres's own. The database must be in UTF-8. It connects when it is first used, and again after the
/// server was restarted; until then calls fail with an error that may be retried. Claims are on disk before they are
/// answered, because workers on other machines outlive the server.
///
/// Several processes share the jobs: [`Engine::abandon`] of every worker is then only for when all others are stopped.
/// Dropping it finishes what is queued.
pub struct PostgresEngine {
    /// None only while it is dropped.
    lanes: Option<Lanes>,
    shared: Shared,
    readers: Arc<Pool<Session>>,
    /// One connection that keeps the lock of the worker's name, and whether that was asked for before.
    named: (Arc<Pool<Session>>, AtomicBool),
    operators: Arc<Semaphore>,
    runtime: Handle,
    thread: Option<JoinHandle<()>>,
}

struct Lanes {
    enqueue: Lane<Enqueue>,
    peek: Lane<Look>,
    claim: Lane<Take>,
    renew: Lane<Renewal>,
    finish: Lane<Finish>,
    release: Lane<Return>,
}

impl PostgresEngine {
    /// An engine for the jobs at this URL. It connects when it is first used.
    pub fn open(url: &str) -> Result<Self, EngineError> {
        let options = Options::read(url)?;
        let connections = options.connections;
        let session = |read_only| SessionOptions { options: options.clone(), read_only };
        let readers = Pool::new(session(true), READERS);
        let named = (Pool::new(session(true), 1), AtomicBool::new(false));
        let shared = Shared {
            pool: Pool::new(session(false), connections),
            queued_bytes: Arc::new(AtomicUsize::new(0)),
            hints: watch::channel(0).0,
        };
        let (enqueue, enqueues) = Lane::new(&shared);
        let (peek, peeks) = Lane::new(&shared);
        let (claim, claims) = Lane::new(&shared);
        let (renew, renewals) = Lane::new(&shared);
        let (finish, finishes) = Lane::new(&shared);
        let (release, releases) = Lane::new(&shared);
        let tasks: Vec<BoxFuture<'static, ()>> = vec![
            Box::pin(enqueues),
            Box::pin(peeks),
            Box::pin(claims),
            Box::pin(renewals),
            Box::pin(finishes),
            Box::pin(releases),
        ];
        let no_thread = |error: std::io::Error| {
            EngineError::storage(Retry::Safe, format!("cannot start a thread: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new()
            .name("tollway-jobs-postgres".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let lanes: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
                    join_all(lanes).await;
                });
            })
            .map_err(no_thread)?;
        Ok(Self {
            lanes: Some(Lanes { enqueue, peek, claim, renew, finish, release }),
            shared,
            readers,
            named,
            operators: Arc::new(Semaphore::new(OPERATORS_MAX)),
            runtime: handle,
            thread: Some(thread),
        })
    }

    fn lane<T: Send + 'static>(&self, ask: impl FnOnce(&Lanes) -> EngineAnswer<T>) -> EngineAnswer<T> {
        match &self.lanes {
            Some(lanes) => ask(lanes),
            None => refuse(closed()),
        }
    }

    /// Runs a call of an operator on a connection that cannot write.
    fn read<T: Send + 'static>(
        &self,
        run: impl for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Failure>> + Send + Sync + 'static,
    ) -> EngineAnswer<T> {
        self.alone(self.readers.clone(), run)
    }

    /// Runs a call of an operator in a transaction of its own.
    fn write<T: Send + 'static>(
        &self,
        run: impl for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Failure>> + Send + Sync + 'static,
    ) -> EngineAnswer<T> {
        let answer = self.alone(self.shared.pool.clone(), run);
        let hints = self.shared.hints.clone();
        Box::pin(async move {
            let answer = answer.await;
            hints.send_modify(|hint| *hint = hint.wrapping_add(1));
            answer
        })
    }

    fn alone<T: Send + 'static>(
        &self,
        pool: Arc<Pool<Session>>,
        run: impl for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Failure>> + Send + Sync + 'static,
    ) -> EngineAnswer<T> {
        let Ok(room) = self.operators.clone().try_acquire_owned() else {
            let message = format!("{OPERATORS_MAX} calls of operators run already; try again later");
            return refuse(EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message });
        };
        let (caller, answered) = oneshot::channel();
        self.runtime.spawn(async move {
            let answer = attempt(&pool, &run).await.map_err(Failure::answer);
            drop(room);
            // The caller may be gone.
            let _ = caller.send(answer);
        });
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(closed())) })
    }
}

/// Runs a call, again if others were in the way.
async fn attempt<T>(
    pool: &Arc<Pool<Session>>,
    run: &impl for<'s> Fn(&'s Session) -> BoxFuture<'s, Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut tries = 0;
    loop {
        let lease = pool.lease().await.map_err(Failure::Postgres)?;
        let ran = tokio::time::timeout(OPERATORS_WITHIN, run(lease.session())).await;
        let failure = match ran.unwrap_or_else(|_| Err(Failure::silence())) {
            Ok(answer) => {
                lease.return_to_pool();
                return Ok(answer);
            }
            Err(failure) => lease.session().explain(failure),
        };
        give_back(lease, &failure).await;
        tries += 1;
        if !failure.is_contention() || tries == TRIES {
            return Err(failure);
        }
        tokio::time::sleep(Duration::from_millis(5 << tries)).await;
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.lanes = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Engine for PostgresEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic_hand_off: true,
            exact_counts: true,
            delivers_once: true,
            claim_by_cost: true,
            ordered: true,
            inspectable: true,
            groups: true,
            delay_max: None,
            retention_max: None,
            job_bytes_max: JOB_BYTES_MAX,
        }
    }

    fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        let bytes = jobs.iter().map(NewJob::bytes).sum();
        match within("jobs", jobs.len(), BATCH_MAX).and_then(|()| within("bytes", bytes, BATCH_BYTES_MAX)) {
            Ok(()) => self.lane(|lanes| lanes.enqueue.ask(Enqueue { jobs, now })),
            Err(error) => refuse(error),
        }
    }

    fn peek(&self, stage: &Name, now: Timestamp) -> EngineAnswer<Peek> {
        self.lane(|lanes| lanes.peek.ask(Look { stage: stage.clone(), now }))
    }

    fn claim(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        match within("jobs", request.count, BATCH_MAX) {
            Ok(()) => self.lane(|lanes| lanes.claim.ask(Take { request, now })),
            Err(error) => refuse(error),
        }
    }

    fn renew(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        match within("claims", claims.len(), BATCH_MAX) {
            Ok(()) => self.lane(|lanes| lanes.renew.ask(Renewal { claims, visibility, now })),
            Err(error) => refuse(error),
        }
    }

    fn finish(&self, claim: Claim, conclusion: Conclusion, now: Timestamp) -> EngineAnswer<Finished> {
        match check(&conclusion) {
            Ok(bytes) => self.lane(|lanes| lanes.finish.ask(Finish { claim, conclusion, now, bytes })),
            Err(error) => refuse(error),
        }
    }

    fn release(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        match within("claims", claims.len(), BATCH_MAX) {
            Ok(()) => self.lane(|lanes| lanes.release.ask(Return { claims, now })),
            Err(error) => refuse(error),
        }
    }

    fn abandon(&self, worker: Option<&str>, now: Timestamp) -> EngineAnswer<u64> {
        let worker = worker.map(str::to_owned);
        self.write(move |session| Box::pin(operate::abandon(session, worker.clone(), now)))
    }

    fn claim_name(&self, worker: &str, _: &str) -> EngineAnswer<Option<String>> {
        let (pool, asked_before) = &self.named;
        let worker = worker.to_owned();
        let other = self.alone(pool.clone(), move |session| {
            let worker = worker.clone();
            Box::pin(async move { names::lock(session, &worker).await })
        });
        // The server may not have noticed yet that an earlier process died.
        let is_first = !asked_before.swap(true, Ordering::Relaxed);
        Box::pin(async move { Ok(other.await?.filter(|_| !is_first)) })
    }

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        Some(self.shared.hints.subscribe())
    }
}

impl Administration for PostgresEngine {
    fn counts(&self) -> EngineAnswer<Vec<StageCounts>> {
        self.read(|session| Box::pin(read::counts(session)))
    }

    fn group_counts(&self, group: &str) -> EngineAnswer<Vec<StageCounts>> {
        let group = group.to_owned();
        self.read(move |session| Box::pin(read::group_counts(session, group.clone())))
    }

    fn scan(&self, filter: Filter, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<Job>> {
        self.read(move |session| Box::pin(read::scan(session, filter.clone(), after, limit.min(PAGE_MAX))))
    }

    fn matching(&self, filter: Filter) -> EngineAnswer<u64> {
        self.read(move |session| Box::pin(read::matching(session, filter.clone())))
    }

    fn evidence(&self, job: JobId) -> EngineAnswer<Vec<Evidence>> {
        self.read(move |session| Box::pin(read::evidence(session, job)))
    }

    fn results(&self, stage: &Name, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<JobResult>> {
        let stage = stage.clone();
        self.read(move |session| Box::pin(read::results(session, stage.clone(), after, limit.min(PAGE_MAX))))
    }

    fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> EngineAnswer<Edited> {
        self.write(move |session| Box::pin(operate::edit(session, job, edit.clone(), now)))
    }

    fn change(
        &self,
        filter: Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Changed> {
        let limit = limit.min(PAGE_MAX);
        self.write(move |session| {
            Box::pin(operate::change(session, filter.clone(), change, after, limit, now))
        })
    }

    fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<StageMove> {
        let (stages, limit) = ((from.clone(), to.clone()), limit.min(PAGE_MAX));
        match check_stages(from, to) {
            Ok(()) => self.write(move |session| {
                let (from, to) = stages.clone();
                Box::pin(stage_move::move_to_stage(session, from, to, after, limit, now))
            }),
            Err(error) => refuse(error),
        }
    }

    fn stages(&self) -> EngineAnswer<Vec<StageSettings>> {
        self.read(|session| Box::pin(read::stages(session)))
    }

    fn set_stage(&self, stage: &Name, change: StageChange, now: Timestamp) -> EngineAnswer<()> {
        let stage = stage.clone();
        self.write(move |session| Box::pin(operate::set_stage(session, stage.clone(), change.clone(), now)))
    }

    fn purge(&self, stage: &Name, before: Timestamp, limit: usize) -> EngineAnswer<u64> {
        let stage = stage.clone();
        self.write(move |session| {
            Box::pin(operate::purge(session, stage.clone(), before, limit.min(PAGE_MAX)))
        })
    }

    fn record(&self, now: Timestamp) -> EngineAnswer<()> {
        self.write(move |session| Box::pin(samples::record(session, now)))
    }

    fn withdraw(
        &self,
        filter: Filter,
        to: &str,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Page<Job>> {
        let (to, limit) = (to.to_owned(), limit.min(PAGE_MAX));
        self.write(move |session| {
            Box::pin(moving::withdraw(session, filter.clone(), to.clone(), after, limit, now))
        })
    }

    fn confirm_moved(&self, jobs: Vec<JobId>, to: &str) -> EngineAnswer<u64> {
        let to = to.to_owned();
        match within("jobs", jobs.len(), BATCH_MAX) {
            Ok(()) => self.write(move |session| Box::pin(moving::confirm(session, jobs.clone(), to.clone()))),
            Err(error) => refuse(error),
        }
    }

    fn import(&self, jobs: Vec<MovedJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        match check_import(&jobs) {
            Ok(_) => self.write(move |session| Box::pin(moving::import(session, jobs.clone(), now))),
            Err(error) => refuse(error),
        }
    }

    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>> {
        self.read(move |session| Box::pin(samples::samples(session, since)))
    }
}
