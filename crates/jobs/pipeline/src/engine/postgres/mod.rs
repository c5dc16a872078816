//! Jobs in Postgres, for processes on many machines.
//!
//! One thread with its own runtime carries all calls, so that an engine works in any runtime, and a call goes on when its
//! caller leaves. Each operation is a batch: see `lane.rs` for how they share transactions, `statements.rs` for the SQL.
//!
//! Hints are of this process only. `NOTIFY` would wake others sooner, but every transaction with one takes a lock of the
//! whole server to commit, which costs more than others gain: their next look comes soon.

mod calls;
mod claims;
mod enqueue;
mod error;
mod finish;
mod lane;
mod moving;
mod names;
mod next_claims;
mod operate;
mod options;
mod read;
mod rows;
mod samples;
mod schema;
mod session;
mod stage_move;
mod statements;
mod transitions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot, watch};
use tollway_core::Retry;
use tollway_postgres_link::Pool;

use self::claims::{Look, Renewal, Return, Take};
use self::enqueue::Enqueue;
use self::error::Failure;
use self::finish::Finish;
use self::lane::{Lane, Shared, closed, give_back};
use self::options::Options;
use self::session::{Session, SessionOptions};
use super::checks::refuse;
use super::request::reply;
use crate::bounds::JOB_BYTES_MAX;
use crate::{Capabilities, Engine, EngineAnswer, EngineError, EngineFault, EngineReply, EngineRequest};

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

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        Some(self.shared.hints.subscribe())
    }

    fn call(&self, request: EngineRequest) -> EngineAnswer<EngineReply> {
        use {EngineReply as Reply, EngineRequest as Request};
        let Some(lanes) = &self.lanes else { return refuse(closed()) };
        let bytes = request.bytes();
        match request {
            Request::Enqueue { jobs, now } => reply(lanes.enqueue.ask(Enqueue { jobs, now }), Reply::Enqueue),
            Request::Peek { stage, now } => reply(lanes.peek.ask(Look { stage, now }), Reply::Peek),
            Request::Claim { request, now } => reply(lanes.claim.ask(Take { request, now }), Reply::Claim),
            Request::Renew { claims, visibility, now } => {
                reply(lanes.renew.ask(Renewal { claims, visibility, now }), Reply::Renew)
            }
            Request::Finish { claim, conclusion, next, now } => {
                reply(lanes.finish.ask(Finish { claim, conclusion, next, now, bytes }), Reply::Finish)
            }
            Request::Release { claims, now } => {
                reply(lanes.release.ask(Return { claims, now }), Reply::Release)
            }
            Request::ClaimName { worker, .. } => reply(self.lock_name(worker), Reply::ClaimName),
            request if request.is_read() => {
                self.read(move |session| Box::pin(calls::read(session, request.clone())))
            }
            request => self.write(move |session| Box::pin(calls::write(session, request.clone()))),
        }
    }
}

impl PostgresEngine {
    /// Another process with the lock of this worker's name.
    fn lock_name(&self, worker: String) -> EngineAnswer<Option<String>> {
        let (pool, asked_before) = &self.named;
        let other = self.alone(pool.clone(), move |session| {
            let worker = worker.clone();
            Box::pin(async move { names::lock(session, &worker).await })
        });
        // The server may not have noticed yet that an earlier process died.
        let is_first = !asked_before.swap(true, Ordering::Relaxed);
        Box::pin(async move { Ok(other.await?.filter(|_| !is_first)) })
    }
}
