//! Puts a runner together.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::{Notify, watch};
use tollway::Limiter;
use tollway_core::{Clock, Name, Span, Subject, Timestamp};
use tollway_memory::BEHIND_MIN;
use tower::BoxError;

use super::active::ActiveClaims;
use super::alarm::{AlarmRules, AlarmSink, LogSink};
use super::clock::PipelineClock;
use super::dispatch::Dispatcher;
use super::history::History;
use super::outage::EngineHealth;
use super::progress::unlisted;
use super::slots::Slots;
use super::stage::Handlers;
use super::unreachable::UnreachableHandlers;
use super::{OwnEvents, Phase, Run, Runner, share, upkeep};
use crate::handler::Handler;
use crate::handler::guard::GuardProgram;
use crate::{Engine, EngineError, PipelineConfig, StageChange, StageConfig};

/// Why a runner did not start.
#[derive(thiserror::Error)]
pub enum RunError {
    /// A stage has no handler.
    #[error("stage {stage} has no handler: give it one in the config, or bring one with `handler`")]
    NoHandler {
        /// The stage.
        stage: String,
    },
    /// A stage to work on is not there.
    #[error("there is no stage {stage} to work on")]
    UnknownStage {
        /// The stage.
        stage: String,
    },
    /// A handler cannot be used.
    #[error("the handler of stage {stage} cannot be used: {cause}")]
    Handler {
        /// The stage.
        stage: String,
        /// Why.
        cause: BoxError,
    },
    /// A reloaded config has other stages.
    #[error("the stages were {before} and are {after} now: restart the pipeline to change them")]
    OtherStages {
        /// The names of those that run.
        before: String,
        /// The names in the new config.
        after: String,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

tollway_core::debug_as_display!(RunError);

/// Puts a runner together.
pub struct RunnerBuilder {
    engine: Arc<dyn Engine>,
    limiter: Limiter,
    subject: Subject,
    stages: Vec<StageConfig>,
    total: Option<u32>,
    handlers: Handlers,
    jobs_max: Option<u64>,
    worker: Option<String>,
    sole_owner: bool,
    own_events: OwnEvents,
    rules: AlarmRules,
    sink: Arc<dyn AlarmSink>,
}

impl RunnerBuilder {
    pub(super) fn new(engine: Arc<dyn Engine>, limiter: Limiter) -> Self {
        Self {
            engine,
            limiter,
            subject: Subject::SHARED,
            stages: Vec::new(),
            total: None,
            handlers: Handlers::default(),
            jobs_max: None,
            worker: None,
            sole_owner: false,
            own_events: OwnEvents::default(),
            rules: AlarmRules::default(),
            sink: Arc::new(LogSink),
        }
    }

    /// Runs the stages of a config.
    #[must_use]
    pub fn pipeline(mut self, config: &PipelineConfig) -> Self {
        self.stages.extend(config.stages.iter().cloned());
        self.total = config.concurrency;
        self.subject = config.subject.clone();
        self
    }

    /// Adds a stage after those that are there.
    #[must_use]
    pub fn stage(mut self, config: StageConfig) -> Self {
        self.stages.push(config);
        self
    }

    /// Lets this many jobs run at a time in all stages together.
    #[must_use]
    pub fn total(mut self, jobs: u32) -> Self {
        self.total = Some(jobs);
        self
    }

    /// Counts takes for this subject, in all stages, and not for the shared one.
    #[must_use]
    pub fn subject(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// Starts at most this many jobs of the first stage, and works on all that they hand on: a small batch. A job that fails
    /// after the last of them has started waits for another run.
    #[must_use]
    pub fn jobs_max(mut self, jobs: u64) -> Self {
        self.jobs_max = Some(jobs);
        self
    }

    /// Works only on these stages; others hand on to them and take what they hand on. Stages without a worker anywhere wait.
    #[must_use]
    pub fn only(mut self, stages: impl IntoIterator<Item = Name>) -> Self {
        self.handlers.only = Some(stages.into_iter().collect());
        self
    }

    /// The handler of a stage, in place of what the config says.
    #[must_use]
    pub fn handler(mut self, stage: &str, handler: Handler) -> Self {
        self.handlers.brought.insert(stage.to_owned(), (handler, false));
        self
    }

    /// The same for a handler that calls [`Turn::begin`](crate::handler::Turn::begin) itself.
    #[must_use]
    pub fn handler_that_begins(mut self, stage: &str, handler: Handler) -> Self {
        self.handlers.brought.insert(stage.to_owned(), (handler, true));
        self
    }

    /// The program that guards subprocesses; otherwise the running one.
    #[must_use]
    pub fn guard(mut self, guard: GuardProgram) -> Self {
        self.handlers.guard = Some(guard);
        self
    }

    /// The name of this process in claims, in place of its host and id. No other process may have it: claims that are open
    /// under this name at the start belong to an earlier process, which died.
    #[must_use]
    pub fn worker(mut self, name: &str) -> Self {
        self.worker = Some(name.to_owned());
        self
    }

    /// No other process works on these jobs: claims that are open at the start belong to a process that died.
    #[must_use]
    pub fn sole_owner(mut self) -> Self {
        self.sole_owner = true;
        self
    }

    /// Adds what this process does to these counts, for one that starts several runners.
    #[cfg(feature = "sqs")]
    #[must_use]
    pub(crate) fn counts_in(mut self, own: &OwnEvents) -> Self {
        self.own_events = own.clone();
        self
    }

    /// When to raise alarms, and where to send them.
    #[must_use]
    pub fn alarms(mut self, rules: AlarmRules, sink: Arc<dyn AlarmSink>) -> Self {
        (self.rules, self.sink) = (rules, sink);
        self
    }

    /// Starts it on this tokio runtime.
    pub async fn start(self) -> Result<Runner, RunError> {
        if let Some(stage) = self.handlers.unknown(&self.stages) {
            return Err(RunError::UnknownStage { stage });
        }
        let stages = self.handlers.stages(self.stages)?;
        let clock = PipelineClock { limiter: self.limiter.clone(), engine: self.engine.clone() };
        let started_at = clock.now();
        warn_if_behind(started_at.since(self.limiter.clock().now()));
        let history = History::load(&*self.engine, started_at).await?;
        let (phase, current) = watch::channel(Phase::Running);
        let run = Arc::new(Run {
            engine: self.engine,
            limiter: self.limiter,
            clock: Arc::new(clock),
            subject: self.subject,
            slots: Slots::new(stages.len(), self.total),
            stages: RwLock::new(share(stages)),
            handlers: self.handlers,
            worker: self.worker.clone().unwrap_or_else(host_and_process),
            jobs_left: self.jobs_max.map(AtomicU64::new),
            active: ActiveClaims::default(),
            waiting: Mutex::default(),
            unreachable: UnreachableHandlers::default(),
            history: Mutex::new(history),
            started_at,
            own_events: self.own_events,
            raised: Arc::default(),
            health: EngineHealth::default(),
            paused_here: Mutex::default(),
            wake: Notify::new(),
            phase: current,
        });
        prepare(&run).await?;
        let is_named = self.worker.is_some() && !self.sole_owner;
        let (started_at, fast) = (run.now(), run.engine.capabilities().exact_counts);
        let mut looks_for_claims = None;
        match (self.sole_owner, self.worker) {
            (true, _) => abandon(&run, None, started_at).await?,
            (false, Some(worker)) if fast => abandon(&run, Some(&worker), started_at).await?,
            // An engine that reads every job to find them does so while it works.
            (false, Some(worker)) => {
                let run = run.clone();
                looks_for_claims = Some(tokio::spawn(async move {
                    if let Err(error) = abandon(&run, Some(&worker), started_at).await {
                        tracing::warn!(%error, "claims of an earlier process are not open again; they expire");
                    }
                }));
            }
            // A process id comes again, also on another machine: claims of an earlier process expire.
            (false, None) => {}
        }
        let mut tasks = vec![
            tokio::spawn(Dispatcher::new(run.clone()).run()),
            tokio::spawn(upkeep::renew_claims(run.clone())),
            tokio::spawn(upkeep::tidy(run.clone())),
            tokio::spawn(upkeep::observe(run.clone(), self.rules, self.sink)),
        ];
        tasks.extend(looks_for_claims);
        tasks.extend(is_named.then(|| tokio::spawn(upkeep::watch_name(run.clone()))));
        Ok(Runner { run, tasks, phase })
    }
}

/// Says that the limiter, whose clock is the machine's here, is behind the jobs. A file store has the same time as they.
fn warn_if_behind(behind: Span) {
    if behind > BEHIND_MIN {
        let seconds = behind.as_micros() / 1_000_000;
        tracing::warn!(
            seconds,
            "the clock is behind the newest time of the jobs, so their time goes on from there. Correct the clock"
        );
    }
}

/// Tells the engine what it needs to know of the stages.
///
/// A stage that waited for one which the config has no more goes on waiting for the jobs that are there: they are to be moved,
/// and groups must not be taken for complete before.
pub(super) async fn prepare(run: &Run) -> Result<(), EngineError> {
    let stages = run.stages();
    let names: Vec<Name> = stages.iter().map(|stage| stage.config.name.clone()).collect();
    let known = run.engine.stages().await?;
    for stage in stages.iter() {
        let before = known.iter().find(|known| known.stage == stage.config.name);
        let mut after = stage.config.after.clone();
        after.extend(
            before.into_iter().flat_map(|known| &known.after).filter(|name| !names.contains(name)).cloned(),
        );
        if after.len() > stage.config.after.len() {
            let counts = run.engine.counts().await?;
            let open = unlisted(&counts, &names);
            after.retain(|name| names.contains(name) || open.iter().any(|counts| counts.stage == *name));
        }
        run.set_stage(&stage.config.name, StageChange { after: Some(after), ..StageChange::default() })
            .await?;
    }
    Ok(())
}

/// Ends the claims of processes that died before this time.
async fn abandon(run: &Run, worker: Option<&str>, now: Timestamp) -> Result<(), EngineError> {
    let abandoned = run.engine.abandon(worker, now).await?;
    if abandoned > 0 {
        tracing::info!(claims = abandoned, "claims of a process that died are open again");
    }
    Ok(())
}

pub(super) fn host_and_process() -> String {
    let host = rustix::system::uname();
    format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
