//! Jobs as messages of Amazon SQS, with a ledger in a DynamoDB table.
//!
//! SQS delivers at least once, in any order, and knows neither keys nor tries. So a message is only the offer of a job: the
//! ledger decides whether it may be claimed. Every change of a job is one conditional write of its record, and a message is
//! deleted only after all that follows from its job is stored and sent. A process may therefore die between any two steps: the
//! message comes again, and the next process completes what is missing.

mod calls;
mod claim;
mod clients;
mod counts;
mod dead;
mod delivered;
mod enqueue;
mod error;
mod fence;
mod finish;
mod foreign;
mod groups;
mod hand_off;
mod lane;
mod ledger;
mod left_messages;
mod message;
mod move_task;
mod moving;
mod names;
mod open_claims;
mod operate;
mod outlook;
mod pause;
mod poll;
mod queue;
mod read;
mod record;
mod samples;
mod stage_move;
mod stages;
mod table;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollway_aws::SystemClock;
use tollway_core::{Clock, Name, Retry, Span, Timestamp};
use tollway_pipeline::*;

use self::clients::{Clients, retried};
use self::counts::Counts;
use self::delivered::Delivered;
use self::error::storage;
use self::ledger::{DATA_BYTES_MAX, Versioned};
use self::outlook::Outlook;
use self::pause::Pause;
use self::queue::{Requests, StageQueue};
use self::table::{Table, read_number};

pub use self::clients::connect;
pub use self::move_task::{MOVES_PER_SECOND_MAX, MoveProgress, MoveState, MoveTask};

/// How many ids a process takes at a time.
const IDS_AT_A_TIME: u64 = 100;

/// How old the number of messages may be that SQS says.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How often a queue of dead letters is looked through that has no more of them than the ledger.
const DEAD_QUEUES_EVERY: Duration = Duration::from_secs(10 * 60);

/// How often a queue is looked through that shows more messages than its stage has jobs.
const LEFT_MESSAGES_EVERY: Duration = Duration::from_secs(10 * 60);

/// How often all held jobs of a stage are looked at.
const HELD_EVERY: Duration = Duration::from_secs(60 * 60);

/// Keeps jobs in SQS and a DynamoDB table: for processes on many machines.
pub struct SqsEngine {
    inner: Arc<Inner>,
}

/// What the calls of an engine share.
struct Inner {
    url: SqsUrl,
    clients: Arc<Clients>,
    table: Table,
    table_ready: OnceCell<()>,
    requests: Arc<Requests>,
    stage_queues: tokio::sync::Mutex<HashMap<Name, Arc<StageQueue>>>,
    known_stages: Mutex<HashSet<Name>>,
    settings: Mutex<Option<(Instant, Vec<StageSettings>)>>,
    ids: tokio::sync::Mutex<Range<u64>>,
    /// Names of workers that this process has written. It has one, or in tests a few.
    names: Mutex<HashSet<String>>,
    /// The open claims of this process, as they were last written.
    claims: Mutex<HashMap<(Name, JobId), Versioned>>,
    outlooks: Mutex<HashMap<Name, Outlook>>,
    counts: Counts,
    /// How far the purge of each stage has come.
    purged: Mutex<HashMap<Name, String>>,
    /// When SQS was last asked how many messages it has.
    looked_at: Pause,
    dead_queues_looked_at: Pause,
    left_looked_at: Pause,
    held_looked_at: Pause,
    retention: Mutex<Option<Span>>,
    /// What follows from done jobs: their outputs are sent, then their messages deleted.
    follow_ups: Mutex<JoinSet<()>>,
    hints: watch::Sender<u64>,
    /// Messages that were handed over; none: the engine receives them itself.
    delivered: Option<Arc<Delivered>>,
}

/// Opens an engine for a program that opens pipelines of any kind, and looks whether the queues suit.
pub fn open(url: &SqsUrl) -> EngineAnswer<Arc<dyn Engine>> {
    let engine = SqsEngine::at(Arc::new(SystemClock), url);
    Box::pin(async move {
        engine.check_queues().await?;
        Ok(Arc::new(engine) as Arc<dyn Engine>)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SqsEngine {
    /// The engine at a URL: `sqs:?ledger=tollway-jobs`. It connects when it is first used.
    pub fn open(url: &EngineUrl) -> Result<Self, EngineError> {
        Self::going_by(Arc::new(SystemClock), url)
    }

    /// The same with another clock of the machine, which is compared with that of AWS. Calls still bring their time.
    pub fn going_by(clock: Arc<dyn Clock>, url: &EngineUrl) -> Result<Self, EngineError> {
        let EngineUrl::Sqs(url) = url else {
            return Err(EngineError::caller("the URL of an engine on SQS begins with sqs:"));
        };
        Ok(Self::at(clock, url))
    }

    fn at(clock: Arc<dyn Clock>, url: &SqsUrl) -> Self {
        let clients = Arc::new(Clients::new(url, clock));
        let inner = Inner {
            table: Table::new(url.ledger(), clients.clone()),
            url: SqsUrl::clone(url),
            clients,
            table_ready: OnceCell::new(),
            requests: Arc::default(),
            stage_queues: tokio::sync::Mutex::default(),
            known_stages: Mutex::default(),
            settings: Mutex::default(),
            ids: tokio::sync::Mutex::new(0..0),
            names: Mutex::default(),
            claims: Mutex::default(),
            outlooks: Mutex::default(),
            counts: Counts::default(),
            purged: Mutex::default(),
            looked_at: Pause::of(LOOK_EVERY),
            dead_queues_looked_at: Pause::of(DEAD_QUEUES_EVERY),
            left_looked_at: Pause::of(LEFT_MESSAGES_EVERY),
            held_looked_at: Pause::of(HELD_EVERY),
            retention: Mutex::default(),
            follow_ups: Mutex::default(),
            hints: watch::Sender::new(0),
            delivered: None,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Looks at the queues of the config's stages: they must be there, and their settings must suit.
    pub async fn check_queues(&self) -> Result<(), EngineError> {
        let mut shortest: Option<Span> = None;
        for stage in self.inner.url.stages() {
            let queues = self.inner.queues(&stage.stage).await?;
            let said = queues.queue.attributes().await?;
            shortest = Some(shortest.map_or(said.retention, |known| known.min(said.retention)));
            if let Some(receives) = said.receives_max.filter(|receives| *receives < dead::RECEIVES_MIN) {
                let (queue, enough) = (&queues.queue.name, dead::RECEIVES_MIN);
                tracing::warn!(
                    queue,
                    receives,
                    "SQS makes dead letters of jobs after so few receives, without their evidence: raise maxReceiveCount of the queue's redrive policy to {enough}"
                );
            }
        }
        *lock(&self.inner.retention) = shortest.filter(|span| *span > Span::ZERO);
        Ok(())
    }

    /// How many requests this process has sent to SQS. DynamoDB's are not counted.
    pub fn requests(&self) -> u64 {
        self.inner.requests.all()
    }
}

impl Inner {
    /// The ledger's table, made if the URL says so.
    async fn table(&self) -> Result<&Table, EngineError> {
        if self.url.creates() {
            self.table_ready.get_or_try_init(|| self.create_table()).await?;
        }
        Ok(&self.table)
    }

    /// Ids for this many new jobs, in one piece.
    async fn new_ids(&self, count: usize) -> Result<Range<u64>, EngineError> {
        let count = count as u64;
        let mut free = self.ids.lock().await;
        if free.end - free.start < count {
            let taken = count.max(IDS_AT_A_TIME);
            let key = ("ids".to_owned(), "next".to_owned());
            let numbers = [("last".to_owned(), i64::try_from(taken).unwrap_or(i64::MAX))];
            // Ids that a lost answer took are not used.
            let table = self.table().await?;
            let item = retried!(table.add(&key, &numbers).await)?;
            let last: u64 = read_number(&item, "last")
                .ok_or_else(|| storage(Retry::Useless, "the ledger's counter of ids cannot be read"))?;
            *free = last - taken + 1..last + 1;
        }
        let ids = free.start..free.start + count;
        free.start += count;
        Ok(ids)
    }

    fn hint(&self) {
        self.hints.send_modify(|hints| *hints += 1);
    }

    /// Jobs of a stage can be claimed now.
    fn ready(&self, stage: &Name, jobs: u64) {
        lock(&self.outlooks).entry(stage.clone()).or_default().ready(jobs);
        self.hint();
    }

    /// A job of a stage is due then.
    fn due(&self, stage: &Name, at: Timestamp, job: JobId) {
        lock(&self.outlooks).entry(stage.clone()).or_default().due_at(at, job.get());
    }

    /// A claim of this process has ended: nothing expires any more.
    fn forget_claim(&self, claim: &Claim) {
        lock(&self.claims).remove(&(claim.stage.clone(), claim.job));
        lock(&self.outlooks).entry(claim.stage.clone()).or_default().not_due(claim.job.get());
    }
}

impl Engine for SqsEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            exact_counts: false,
            delivers_once: false,
            claim_by_cost: false,
            ordered: false,
            retention_max: Some(lock(&self.inner.retention).unwrap_or(stages::RETENTION_MAX)),
            job_bytes_max: DATA_BYTES_MAX,
            ..Capabilities::ALL
        }
    }

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        Some(self.inner.hints.subscribe())
    }

    /// As a task of its own: calls wait for each other's locks, and a caller that stops polling its call must not keep them.
    fn call(&self, request: EngineRequest) -> EngineAnswer<EngineReply> {
        let answer = calls::carry_out(self.inner.clone(), request);
        Box::pin(async move {
            let ended = |error| storage(Retry::Unclear, format!("a call of the engine ended early: {error}"));
            tokio::spawn(answer).await.map_err(ended)?
        })
    }
}
