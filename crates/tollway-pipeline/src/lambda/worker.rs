//! Works on the messages of one event, until the function's time is nearly over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway::Limiter;
use tollway_core::{Name, Span, Timestamp};

use super::event::{BatchFailures, SqsEvent, SqsRecord};
use crate::bounds::{BATCH_MAX, PAGE_MAX};
use crate::run::{OwnEvents, RunError, Runner};
use crate::{
    Engine, EngineError, Filter, Job, MovedJob, NewJob, PipelineConfig, SqliteEngine, StageChange,
    StageConfig, State,
};

/// How long before the end of its time a function gives back what it has not begun.
pub const RETURN_BEFORE: Span = Span::from_secs(10);

/// How long handlers may go on after that. The rest is for handing on, and for the answer.
const GRACE: Span = Span::from_secs(5);

/// How often the jobs of an event are looked at.
const LOOK_EVERY: Span = Span::from_millis(50);

/// A failed job goes back to its queue; it is not tried again in the same event.
const NEVER_AGAIN: Span = Span::from_days(1);

const TRIES_MAX: u32 = 1_000;

/// An event that cannot be worked on at all: all of its messages go back.
#[derive(thiserror::Error)]
pub enum WorkError {
    /// A queue that no stage has.
    #[error(
        "no stage of the pipeline has the queue {queue:?}; name it as `queue` of its stage, or set --stage"
    )]
    UnknownQueue {
        /// The queue.
        queue: String,
    },
    /// Messages of several queues.
    #[error("an event has messages of one queue, not of {one:?} and {other:?}")]
    SeveralQueues {
        /// A queue.
        one: String,
        /// Another one.
        other: String,
    },
    /// A stage waits for groups, and those that Lambda works on are not in the engine.
    #[error(
        "stage {stage:?} waits for whole groups (`after`), which a function cannot see; use `tollway pipeline run`"
    )]
    Groups {
        /// The stage.
        stage: String,
    },
    /// The jobs of an event cannot be kept while it is worked on.
    #[error("no room for an event's jobs: {0}")]
    Folder(std::io::Error),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The stage cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
}

tollway_core::debug_as_display!(WorkError);

/// Works on events of a pipeline's queues. What jobs hand on goes to the pipeline's engine.
pub struct LambdaWorker {
    config: PipelineConfig,
    limiter: Limiter,
    engine: Arc<dyn Engine>,
    stage: Option<Name>,
    own: OwnEvents,
    guard: Option<crate::handler::guard::GuardProgram>,
    events: AtomicU64,
}

impl LambdaWorker {
    /// A worker for this pipeline. `stage` is the stage of every message; none: the one whose queue it comes from.
    pub fn new(
        config: PipelineConfig,
        limiter: Limiter,
        engine: Arc<dyn Engine>,
        stage: Option<Name>,
    ) -> Result<Self, WorkError> {
        if let Some(waits) = config.stages.iter().find(|stage| !stage.after.is_empty()) {
            return Err(WorkError::Groups { stage: waits.name.to_string() });
        }
        let (own, events) = (OwnEvents::default(), AtomicU64::new(0));
        Ok(Self { config, limiter, engine, stage, own, guard: None, events })
    }

    /// The program that guards subprocesses; otherwise the running one.
    #[must_use]
    pub fn guard(mut self, guard: crate::handler::guard::GuardProgram) -> Self {
        self.guard = Some(guard);
        self
    }

    /// What this process did in each stage.
    pub fn own_events(&self) -> OwnEvents {
        self.own.clone()
    }

    /// Works on an event until all is done, or until [`RETURN_BEFORE`] the deadline. Answers which messages go back.
    pub async fn handle(&self, event: &SqsEvent, deadline: Timestamp) -> Result<BatchFailures, WorkError> {
        let Some(stage) = self.stage_of(&event.records)? else { return Ok(BatchFailures::default()) };
        let now = self.limiter.clock().now();
        let batch = Batch::read(&event.records, &stage.name, &self.config.source, now);
        let folder = Folder::new(self.events.fetch_add(1, Ordering::Relaxed)).map_err(WorkError::Folder)?;
        let jobs: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&folder.file())?);
        for chunk in batch.jobs.chunks(BATCH_MAX) {
            jobs.enqueue(chunk.to_vec(), now).await?;
        }
        self.work(&jobs, stage, deadline.minus(RETURN_BEFORE)).await?;
        let all = all_jobs(&*jobs).await?;
        let (own, handed_on): (Vec<Job>, Vec<Job>) = all.into_iter().partition(|job| job.stage == stage.name);
        self.hand_on(&handed_on).await?;
        let buried = self.bury(&*jobs, &own).await;
        let is_done = |job: &&Job| job.state == State::Done || buried.contains(&job.key);
        let done: BTreeSet<&str> = own.iter().filter(is_done).map(|job| job.key.as_str()).collect();
        Ok(BatchFailures::new(batch.unfinished(&done)))
    }

    fn stage_of(&self, records: &[SqsRecord]) -> Result<Option<&StageConfig>, WorkError> {
        let Some(first) = records.first() else { return Ok(None) };
        if let Some(other) = records.iter().find(|record| record.queue() != first.queue()) {
            let (one, other) = (first.queue().to_owned(), other.queue().to_owned());
            return Err(WorkError::SeveralQueues { one, other });
        }
        let is_it = |stage: &&StageConfig| match &self.stage {
            Some(name) => stage.name == *name,
            None => stage.queue.as_deref() == Some(first.queue()),
        };
        let found = self.config.stages.iter().find(is_it);
        found.map(Some).ok_or_else(|| WorkError::UnknownQueue { queue: first.queue().to_owned() })
    }

    /// Runs one stage on these jobs, until none can be worked on any more in time.
    async fn work(
        &self,
        jobs: &Arc<dyn Engine>,
        stage: &StageConfig,
        until: Timestamp,
    ) -> Result<(), WorkError> {
        let clock = self.limiter.clock();
        let others = self.config.stages.iter().filter(|other| other.name != stage.name);
        for other in others {
            // What is handed on leaves this process.
            let paused = StageChange { paused: Some(true), ..StageChange::default() };
            jobs.set_stage(&other.name, paused, clock.now()).await?;
        }
        let mut builder = Runner::builder(jobs.clone(), self.limiter.clone())
            .subject(self.config.subject.clone())
            .sole_owner()
            .counts_in(&self.own);
        for config in &self.config.stages {
            let once = StageConfig {
                tries: TRIES_MAX,
                crashes: TRIES_MAX,
                backoff: NEVER_AGAIN,
                backoff_max: NEVER_AGAIN,
                ..config.clone()
            };
            builder = builder.stage(once);
        }
        if let Some(guard) = &self.guard {
            builder = builder.guard(guard.clone());
        }
        let runner = builder.start().await?;
        while clock.now() < until && !is_settled(&**jobs, stage, until).await? {
            let next = clock.now().plus(LOOK_EVERY).min(until);
            crate::run::sleep_until(&**clock, next).await;
        }
        runner.drain(GRACE).await?;
        Ok(())
    }

    /// Enqueues what jobs hand on. A key that was handed on before is known, so that a repeated event changes nothing.
    async fn hand_on(&self, jobs: &[Job]) -> Result<(), EngineError> {
        for chunk in jobs.chunks(BATCH_MAX) {
            let new: Vec<NewJob> = chunk.iter().map(NewJob::of_moved).collect();
            self.engine.enqueue(new, self.limiter.clock().now()).await?;
        }
        Ok(())
    }

    /// Makes dead letters of jobs whose handler gave them up. One that the engine does not take goes back to its queue, whose
    /// own rule ends it.
    async fn bury(&self, jobs: &dyn Engine, own: &[Job]) -> BTreeSet<String> {
        let mut buried = BTreeSet::new();
        for job in own.iter().filter(|job| job.state == State::Dead) {
            let moved = async {
                let evidence = jobs.evidence(job.id).await?;
                let moved = MovedJob { job: job.clone(), evidence };
                self.engine.import(vec![moved], self.limiter.clock().now()).await
            };
            match moved.await {
                Ok(_) => drop(buried.insert(job.key.clone())),
                Err(error) => {
                    tracing::warn!(%error, key = job.key, "a dead letter could not be kept; its message goes back");
                }
            }
        }
        buried
    }
}

/// Whether no job of the stage runs, or could run before then.
async fn is_settled(jobs: &dyn Engine, stage: &StageConfig, until: Timestamp) -> Result<bool, EngineError> {
    let open = |job: &Job| match job.state {
        State::Ready | State::Running => true,
        // The vendor refused it for a moment. One that failed goes back.
        State::Delayed => job.failures == 0 && job.crashes == 0 && job.due_at < until,
        _ => false,
    };
    Ok(!all_jobs(jobs).await?.iter().any(|job| job.stage == stage.name && open(job)))
}

async fn all_jobs(jobs: &dyn Engine) -> Result<Vec<Job>, EngineError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = jobs.scan(Filter::default(), after, PAGE_MAX).await?;
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// The messages of an event and their jobs.
struct Batch {
    jobs: Vec<NewJob>,
    /// The keys of each message's jobs; none: it cannot be read.
    messages: BTreeMap<String, Option<Vec<String>>>,
}

impl Batch {
    fn read(records: &[SqsRecord], stage: &Name, source: &crate::source::Source, now: Timestamp) -> Self {
        let mut batch = Self { jobs: Vec::new(), messages: BTreeMap::new() };
        for record in records {
            let keys = match record.jobs(stage, source, now) {
                Ok(jobs) => {
                    let keys = jobs.iter().map(|job| job.key.clone()).collect();
                    batch.jobs.extend(jobs);
                    Some(keys)
                }
                Err(error) => {
                    tracing::error!(
                        message = record.message_id,
                        error,
                        "a message is no job, and goes back to its queue"
                    );
                    None
                }
            };
            batch.messages.insert(record.message_id.clone(), keys);
        }
        batch
    }

    /// The messages with a job that is not done.
    fn unfinished(self, done: &BTreeSet<&str>) -> Vec<String> {
        let is_done = |keys: &Option<Vec<String>>| {
            keys.as_ref().is_some_and(|keys| keys.iter().all(|key| done.contains(key.as_str())))
        };
        self.messages.into_iter().filter(|(_, keys)| !is_done(keys)).map(|(id, _)| id).collect()
    }
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(event: u64) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tollway-lambda-{}-{event}", std::process::id()));
        // Of an earlier process with this id, which was killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn file(&self) -> PathBuf {
        Path::new(&self.0).join("jobs.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
