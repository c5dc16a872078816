//! The runner: claims jobs in order, within the vendor's quota, and hands them to handlers.
//!
//! `dispatch` decides which job is next, `places` takes from the limiter before a claim, `work` does one job after the other,
//! `conclude` is the rule from an answer to an end, `store` ends a claim and brings the next job, `slots` counts what runs,
//! `unreachable` knows which handlers are away, `upkeep` renews claims and purges, `progress` and `alarm` say how it goes.

mod active;
pub mod alarm;
mod builder;
mod clock;
mod conclude;
mod dispatch;
mod finished;
mod history;
pub mod metrics;
mod outage;
mod own_events;
mod places;
pub mod progress;
mod runner_view;
mod slots;
mod stage;
mod store;
mod unreachable;
mod upkeep;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tollway::Limiter;
use tollway_core::{Clock, Name, Span, Subject, Timestamp};

pub use builder::{RunError, RunnerBuilder};
pub use outage::EngineOutage;
pub use own_events::{CallTimes, LastError, OwnEvents};
pub use runner_view::{AlarmView, RunnerView};

use self::active::ActiveClaims;
use self::alarm::Alarm;
pub(crate) use self::clock::sleep_until;
use self::history::History;
use self::outage::{EngineHealth, is_outage};
use self::progress::Progress;
use self::slots::Slots;
use self::stage::{Handlers, RunStage};
use self::unreachable::UnreachableHandlers;
use crate::{Engine, EngineAnswer, EngineError, PipelineConfig, StageChange, StageCounts};

/// How often a finished pipeline is looked for.
const LOOK_EVERY: Span = Span::from_millis(200);

/// How soon an engine that is away is asked again.
const AWAY_PAUSE: Span = Span::from_secs(1);

/// How long calls of the engine may take that are on their way when a runner is cut off: a claim would be left open, and an
/// answer lost.
const CALLS_END_WITHIN: Duration = Duration::from_secs(1);

/// How long claims may take to be given back at the end. After that they expire by themselves.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(10);

/// A pipeline that runs. Dropping it stops it at once; [`drain`](Runner::drain) is the polite end.
pub struct Runner {
    run: Arc<Run>,
    tasks: Vec<JoinHandle<()>>,
    phase: watch::Sender<Phase>,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// No job is claimed any more.
    Draining,
    /// Workers stop where they are.
    CutOff,
}

/// What the parts of a runner share.
struct Run {
    engine: Arc<dyn Engine>,
    limiter: Limiter,
    clock: Arc<dyn Clock>,
    /// Whom takes count for.
    subject: Subject,
    /// The first one first. A reload replaces them; a job keeps the one it began with.
    stages: RwLock<SharedStages>,
    handlers: Handlers,
    /// The name of this process in claims.
    worker: String,
    slots: Arc<Slots>,
    /// How many more jobs of the first stage may start; none: any number.
    jobs_left: Option<AtomicU64>,
    active: ActiveClaims,
    /// Stages that wait for quota, and until when.
    waiting: Mutex<BTreeMap<Name, Timestamp>>,
    unreachable: UnreachableHandlers,
    history: Mutex<History>,
    started_at: Timestamp,
    /// What this process did in each stage.
    own_events: OwnEvents,
    raised: Arc<Mutex<Vec<Alarm>>>,
    health: EngineHealth,
    /// Stages that this process has paused, because too many of their jobs failed or their handler does not start.
    paused_here: Mutex<BTreeSet<Name>>,
    /// The settings of a stage may have changed.
    wake: Notify,
    phase: watch::Receiver<Phase>,
}

type SharedStages = Arc<[Arc<RunStage>]>;

fn share(stages: Vec<RunStage>) -> SharedStages {
    stages.into_iter().map(Arc::new).collect()
}

impl Run {
    /// The stages as they are now.
    fn stages(&self) -> SharedStages {
        self.stages.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn sleep_until(&self, at: Timestamp) {
        sleep_until(&*self.clock, at).await;
    }

    /// Waits until the runner is at least in this phase.
    async fn reached(&self, phase: Phase) {
        let mut current = self.phase.clone();
        // Without a sender, the runner was dropped.
        let _ = current.wait_for(|current| *current >= phase).await;
    }

    /// Waits until the runner has been cut off for this long.
    async fn cut_off_for(&self, lasts: Duration) {
        self.reached(Phase::CutOff).await;
        tokio::time::sleep(lasts).await;
    }

    /// Whether no further job is to begin.
    fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    async fn counts(&self) -> Result<Vec<StageCounts>, EngineError> {
        let counts = self.engine.counts().await;
        self.health.note(&counts, self.now());
        counts
    }

    fn set_stage(&self, stage: &Name, change: StageChange) -> EngineAnswer<()> {
        self.engine.set_stage(stage, change, self.now())
    }
}

/// The outcome of the jobs that ran when a runner was drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Claims that were given back, because their jobs did not end in time.
    pub given_back: usize,
    /// Claims that could not be given back, because the engine is away: they expire.
    pub left_open: usize,
}

impl Runner {
    /// A runner of the stages that are added to it.
    pub fn builder(engine: Arc<dyn Engine>, limiter: Limiter) -> RunnerBuilder {
        RunnerBuilder::new(engine, limiter)
    }

    /// What keeps its jobs.
    pub fn engine(&self) -> &dyn Engine {
        &*self.run.engine
    }

    /// Its time.
    pub fn now(&self) -> Timestamp {
        self.run.now()
    }

    /// How far every stage is, at which rate, and when all may be done.
    pub async fn progress(&self) -> Result<Progress, EngineError> {
        progress::read(&self.run).await
    }

    /// What this process does in each stage; [`Progress`] has what all processes did.
    pub fn own_events(&self) -> OwnEvents {
        self.run.own_events.clone()
    }

    /// What this process knows beside the jobs, whenever it is called: also after the runner has ended.
    pub fn view(&self) -> impl Fn() -> RunnerView + Send + Sync + 'static {
        let Run { own_events, unreachable, raised, .. } = &*self.run;
        let (own, unreachable, raised) = (own_events.clone(), unreachable.clone(), raised.clone());
        move || RunnerView::of(&own, &unreachable, &lock(&raised))
    }

    /// Since when the engine has not answered, and why; none: it answers.
    pub fn engine_outage(&self) -> Option<EngineOutage> {
        self.run.health.outage(self.run.now())
    }

    /// The conditions that are true now and need a human.
    pub fn alarms(&self) -> Vec<Alarm> {
        lock(&self.run.raised).clone()
    }

    /// Claims no more jobs of a stage. Those that run end as always.
    pub async fn pause(&self, stage: &Name) -> Result<(), EngineError> {
        self.change(stage, StageChange { paused: Some(true), ..StageChange::default() }).await
    }

    /// Claims jobs of a stage again.
    pub async fn resume(&self, stage: &Name) -> Result<(), EngineError> {
        self.change(stage, StageChange { paused: Some(false), ..StageChange::default() }).await
    }

    /// Lets this many jobs of a stage run at a time; none: as many as the config says.
    pub async fn set_concurrency(&self, stage: &Name, jobs: Option<u32>) -> Result<(), EngineError> {
        self.change(stage, StageChange { concurrency: Some(jobs), ..StageChange::default() }).await
    }

    /// Lets this many jobs run at a time in all stages of this process together; none: as many as the stages allow.
    pub fn set_total(&self, jobs: Option<u32>) {
        self.run.slots.set_total(jobs);
        self.run.wake.notify_one();
    }

    async fn change(&self, stage: &Name, change: StageChange) -> Result<(), EngineError> {
        self.run.set_stage(stage, change).await?;
        self.run.wake.notify_one();
        Ok(())
    }

    /// Goes on with other settings and fresh handlers: jobs that run end with those they began with. The stages themselves
    /// must be the same.
    pub async fn reload(&self, config: &PipelineConfig) -> Result<(), RunError> {
        let names =
            |stages: &mut dyn Iterator<Item = &Name>| stages.map(Name::as_str).collect::<Vec<_>>().join(", ");
        let before = names(&mut self.run.stages().iter().map(|stage| &stage.config.name));
        let after = names(&mut config.stages.iter().map(|stage| &stage.name));
        if before != after {
            return Err(RunError::OtherStages { before, after });
        }
        let stages = share(self.run.handlers.stages(config.stages.clone())?);
        *self.run.stages.write().unwrap_or_else(PoisonError::into_inner) = stages;
        builder::prepare(&self.run).await?;
        self.set_total(config.concurrency);
        Ok(())
    }

    /// Waits until no job is ready, delayed or running; of a small batch, until its jobs have left. Held jobs and dead letters
    /// wait for others, and so do the jobs of a stage that this process has paused itself. Of a runner of some stages
    /// ([`RunnerBuilder::only`]), stages after them do not count. While the engine is away, nothing is finished.
    pub async fn finished(&self) -> Result<(), EngineError> {
        loop {
            let pause = match self.is_finished().await {
                Ok(true) => return Ok(()),
                Ok(false) => LOOK_EVERY,
                Err(error) if is_outage(&error) => AWAY_PAUSE,
                Err(error) => return Err(error),
            };
            self.run.sleep_until(self.run.now().plus(pause)).await;
        }
    }

    /// Most looks find work, and cheap counts show it. That there is none is known exactly, or not at all.
    async fn is_finished(&self) -> Result<bool, EngineError> {
        let stopped = finished::stopped_stages(&self.run).await?;
        if finished::open_jobs(&self.run, &self.run.counts().await?, &stopped) > 0 {
            return Ok(false);
        }
        let settled = self.run.engine.settled_counts(self.run.now()).await?;
        Ok(settled.is_some_and(|settled| finished::open_jobs(&self.run, &settled, &stopped) == 0))
    }

    /// Claims nothing more, waits this long for the jobs that run, then ends their handlers and gives their claims back.
    pub async fn drain(self, within: Span) -> Result<Drained, EngineError> {
        let run = self.run.clone();
        let deadline = run.now().plus(within);
        self.drain_until(run.sleep_until(deadline)).await
    }

    /// The same, but waits for the jobs that run until this is ready.
    pub async fn drain_until(self, patience: impl Future<Output = ()>) -> Result<Drained, EngineError> {
        self.end(patience, Timestamp::EPOCH).await
    }

    /// The same for a process whose time is limited: a call that began before `crashed_before` and is cut off had enough of it, so
    /// that counts as a crash. Otherwise it would be tried for ever.
    #[cfg(feature = "sqs")]
    pub(crate) async fn drain_or_crash(
        self,
        within: Span,
        crashed_before: Timestamp,
    ) -> Result<Drained, EngineError> {
        let run = self.run.clone();
        let deadline = run.now().plus(within);
        self.end(run.sleep_until(deadline), crashed_before).await
    }

    async fn end(
        mut self,
        patience: impl Future<Output = ()>,
        crashed_before: Timestamp,
    ) -> Result<Drained, EngineError> {
        self.phase.send_replace(Phase::Draining);
        let [dispatcher, others @ ..] = &mut self.tasks[..] else { return Ok(Drained::default()) };
        tokio::select! {
            _ = &mut *dispatcher => {}
            () = patience => {
                self.phase.send_replace(Phase::CutOff);
                // It ends when its workers have.
                let _ = dispatcher.await;
            }
        }
        self.phase.send_replace(Phase::CutOff);
        for subprocess in self.run.stages().iter().filter_map(|stage| stage.subprocess.as_ref()) {
            subprocess.stop().await;
        }
        others.iter().for_each(JoinHandle::abort);
        let open = self.run.active.len();
        let given_back = tokio::time::timeout(GIVE_BACK_WITHIN, self.give_back(crashed_before)).await;
        match given_back.unwrap_or_else(|_| Err(EngineError::no_answer("claims were not given back"))) {
            Ok(given_back) => Ok(Drained { given_back, left_open: 0 }),
            Err(error) if !is_outage(&error) => Err(error),
            Err(error) => {
                tracing::warn!(claims = open, %error, "claims could not be given back; they expire");
                Ok(Drained { given_back: 0, left_open: open })
            }
        }
    }

    /// Ends the claims that are open. How many were given back.
    async fn give_back(&self, crashed_before: Timestamp) -> Result<usize, EngineError> {
        let (crashed, claims) = self.run.active.begun_before(crashed_before);
        for claim in crashed {
            work::crash(&self.run, claim, "the process had no time left for it").await?;
        }
        let mut given_back = 0;
        for claims in claims.chunks(crate::bounds::BATCH_MAX) {
            let answers = self.run.engine.release(claims.to_vec(), self.run.now()).await?;
            given_back += answers.iter().filter(|newest| **newest).count();
        }
        self.run.engine.flush().await?;
        Ok(given_back)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::CutOff);
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
