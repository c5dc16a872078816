//! One pipeline: how its jobs are reached, and how it was when it was last looked at.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;
use tollway::Timestamp;
use tollway_pipeline::run::Runner;
use tollway_pipeline::run::progress::Progress;
use tollway_pipeline::{Engine, EngineError, PipelineConfig};

use super::row;
use crate::answer::Problem;
use crate::snapshot::PipelineRow;

/// Reaches the jobs of a pipeline. Called again after a failure.
pub type OpenEngine =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Arc<dyn Engine>, EngineError>> + Send>> + Send + Sync>;

/// How long an engine may take to say how far a pipeline is.
const LOOK_WITHIN: Duration = Duration::from_millis(800);

/// A pipeline that the dashboard shows.
pub struct PipelineSource {
    /// Its stages.
    pub config: PipelineConfig,
    /// Reaches its jobs.
    pub open: OpenEngine,
    /// If this process runs it. It must not be held: its last owner ends it.
    pub runner: Weak<Runner>,
}

impl PipelineSource {
    /// A pipeline that another process runs, or none.
    pub fn beside(config: PipelineConfig) -> Self {
        let engine = config.engine.clone();
        let open: OpenEngine = Arc::new(move || {
            let engine = engine.clone();
            Box::pin(async move { engine.open_for_command(false).await })
        });
        Self { config, open, runner: Weak::new() }
    }

    /// A pipeline that this process runs.
    pub fn own(config: PipelineConfig, engine: Arc<dyn Engine>, runner: &Arc<Runner>) -> Self {
        let open: OpenEngine = Arc::new(move || {
            let engine = Arc::clone(&engine);
            Box::pin(async move { Ok(engine) })
        });
        Self { config, open, runner: Arc::downgrade(runner) }
    }
}

/// A pipeline, and what is known of it.
pub(crate) struct Pipeline {
    pub(super) config: PipelineConfig,
    open: OpenEngine,
    runner: Weak<Runner>,
    engine: AsyncMutex<Option<Arc<dyn Engine>>>,
    last: Mutex<PipelineRow>,
}

impl Pipeline {
    pub(super) fn new(source: PipelineSource) -> Self {
        let PipelineSource { config, open, runner } = source;
        let last = PipelineRow { name: config.name.to_string(), ..PipelineRow::default() };
        Self { config, open, runner, engine: AsyncMutex::default(), last: Mutex::new(last) }
    }

    pub(super) fn name(&self) -> &str {
        self.config.name.as_str()
    }

    pub(super) fn runner(&self) -> Option<Arc<Runner>> {
        self.runner.upgrade()
    }

    /// Its jobs. They stay open.
    pub(super) async fn engine(&self) -> Result<Arc<dyn Engine>, Problem> {
        Ok(self.open().await?)
    }

    async fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let mut engine = self.engine.lock().await;
        if let Some(engine) = &*engine {
            return Ok(Arc::clone(engine));
        }
        let opened = (self.open)().await?;
        *engine = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// The next call opens it again: a process may have taken the file over.
    async fn reopen(&self) {
        *self.engine.lock().await = None;
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
        let engine = self.open().await?;
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
            // What its config calls an alarm.
            Some(runner) => {
                alarms.extend(
                    runner.alarms().iter().enumerate().map(|(index, alarm)| {
                        (format!("{name}:{index}"), format!("pipeline {name}: {alarm}"))
                    }),
                )
            }
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
