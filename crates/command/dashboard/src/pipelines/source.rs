//! One pipeline: how its jobs are reached, and how it was when it was last looked at.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;
use tollway::{Span, Timestamp};
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::run::{AlarmView, Runner};
use tollway_pipeline::{Engine, EngineError, EngineOpener, PipelineConfig};

use super::row;
use crate::snapshot::PipelineRow;

/// Reaches the jobs of a pipeline.
type OpenEngine =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Arc<dyn Engine>, EngineError>> + Send>> + Send + Sync>;

/// How long an engine may take to say how far a pipeline is.
const LOOK_WITHIN: Duration = Duration::from_millis(800);

/// How long jobs stay open that another process may take over: then the next look finds that process.
const OPEN_FOR: Span = Span::from_secs(10);

/// A pipeline that the dashboard shows.
pub struct PipelineSource {
    config: PipelineConfig,
    /// Opens its jobs to look at them. They stay open for a while.
    look: OpenEngine,
    /// Opens its jobs for one change.
    change: OpenEngine,
    /// If this process runs it. It must not be held: its last owner ends it.
    runner: Weak<Runner>,
}

impl PipelineSource {
    /// A pipeline that another process runs, or none.
    pub fn beside(config: PipelineConfig, opener: EngineOpener) -> Self {
        let (to_look, to_change) = (config.engine.clone(), config.engine.clone());
        Self {
            config,
            look: Arc::new(move || {
                let engine = to_look.clone();
                Box::pin(async move { opener.open_to_look(&engine).await })
            }),
            change: Arc::new(move || {
                let engine = to_change.clone();
                Box::pin(async move { opener.open_for_command(&engine, true).await })
            }),
            runner: Weak::new(),
        }
    }

    /// A pipeline whose jobs are open in this process.
    pub fn of_engine(config: PipelineConfig, engine: Arc<dyn Engine>) -> Self {
        let open: OpenEngine = Arc::new(move || {
            let engine = Arc::clone(&engine);
            Box::pin(async move { Ok(engine) })
        });
        Self { config, look: Arc::clone(&open), change: open, runner: Weak::new() }
    }

    /// The same, if this process also runs it.
    #[must_use]
    pub fn run_by(self, runner: &Arc<Runner>) -> Self {
        Self { runner: Arc::downgrade(runner), ..self }
    }
}

/// A pipeline, and what is known of it.
pub(crate) struct Pipeline {
    pub(super) config: PipelineConfig,
    look: OpenEngine,
    change: OpenEngine,
    runner: Weak<Runner>,
    /// As it was opened to look at it, and when.
    opened: AsyncMutex<Option<(Arc<dyn Engine>, Timestamp)>>,
    last: Mutex<PipelineRow>,
}

impl Pipeline {
    pub(super) fn new(source: PipelineSource) -> Self {
        let PipelineSource { config, look, change, runner } = source;
        let last = PipelineRow { name: config.name.to_string(), ..PipelineRow::default() };
        Self { config, look, change, runner, opened: AsyncMutex::default(), last: Mutex::new(last) }
    }

    pub(super) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    pub(super) fn runner(&self) -> Option<Arc<Runner>> {
        self.runner.upgrade()
    }

    /// Its jobs, to look at.
    pub(super) async fn engine(&self, now: Timestamp) -> Result<Arc<dyn Engine>, EngineError> {
        let mut opened = self.opened.lock().await;
        if let Some((engine, at)) = &*opened
            && now.since(*at) < OPEN_FOR
        {
            return Ok(Arc::clone(engine));
        }
        // Closed first: two must not wait for each other.
        *opened = None;
        let engine = (self.look)().await?;
        *opened = Some((Arc::clone(&engine), now));
        Ok(engine)
    }

    /// Its jobs, for one change. Drop them soon: no other process can run the pipeline of a SQLite file meanwhile.
    pub(super) async fn engine_to_change(&self) -> Result<Arc<dyn Engine>, EngineError> {
        (self.change)().await
    }

    /// The next look opens it again.
    async fn reopen(&self) {
        *self.opened.lock().await = None;
    }

    /// Reads how far it is.
    pub(super) async fn look(&self, now: Timestamp) {
        let read = timeout(LOOK_WITHIN, self.progress(now)).await;
        let row = match read {
            Ok(Ok(progress)) => row::of(&self.config, &progress),
            failed => {
                if matches!(failed, Ok(Err(_))) {
                    self.reopen().await;
                }
                // The last figures stay, and say since when they are old.
                let last = self.row();
                PipelineRow { engine_away_since: last.engine_away_since.or(Some(now.as_millis())), ..last }
            }
        };
        *self.last() = row;
    }

    async fn progress(&self, now: Timestamp) -> Result<Progress, EngineError> {
        if let Some(runner) = self.runner() {
            return match runner.engine_outage() {
                Some(outage) => Err(outage.error),
                None => runner.progress().await,
            };
        }
        let engine = self.engine(now).await?;
        Progress::read(&*engine, &self.config.stage_names(), engine.time(now)).await
    }

    pub(super) fn row(&self) -> PipelineRow {
        self.last().clone()
    }

    /// Kinds and texts.
    pub(super) fn alarms(&self) -> Vec<(String, String)> {
        let (name, last) = (self.name(), self.row());
        let mut alarms: Vec<(String, String)> = Vec::new();
        if last.engine_away_since.is_some() {
            alarms.push((
                format!("engine_away:{name}"),
                format!("the jobs of pipeline {name} cannot be reached"),
            ));
        }
        match self.runner() {
            // What its config calls an alarm. Snapshots need no token, and an error may quote the data of a job.
            Some(runner) => alarms.extend(runner.alarms().iter().enumerate().map(|(index, alarm)| {
                let text = AlarmView::of(alarm).without_error().text;
                (format!("{name}:{index}"), format!("pipeline {name}: {text}"))
            })),
            None if last.dead > 0 => {
                let text = format!("pipeline {name} has {} dead letters", last.dead);
                alarms.push((format!("dead_letters:{name}"), text));
            }
            None => {}
        }
        alarms
    }

    fn last(&self) -> MutexGuard<'_, PipelineRow> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
