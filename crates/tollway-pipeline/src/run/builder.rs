//! Puts a runner together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};
use tollway::Limiter;
use tollway_core::Name;
use tower::BoxError;

use super::active::ActiveClaims;
use super::alarm::{AlarmRules, AlarmSink, LogSink};
use super::dispatch::Dispatcher;
use super::progress::History;
use super::{Phase, Run, RunStage, Runner, upkeep};
use crate::handler::guard::GuardProgram;
use crate::handler::subprocess::Subprocess;
use crate::handler::{self, Handler};
use crate::{Engine, EngineError, HandlerConfig, PipelineConfig, StageChange, StageConfig};

/// Why a runner did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A stage has no handler.
    #[error("stage {stage} has no handler: give it one in the config, or bring one with `handler`")]
    NoHandler {
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
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Puts a runner together.
pub struct RunnerBuilder {
    engine: Arc<dyn Engine>,
    limiter: Limiter,
    stages: Vec<StageConfig>,
    total: Option<u32>,
    handlers: BTreeMap<String, (Handler, bool)>,
    guard: Option<GuardProgram>,
    worker: Option<String>,
    sole_owner: bool,
    rules: AlarmRules,
    sink: Arc<dyn AlarmSink>,
}

impl RunnerBuilder {
    pub(super) fn new(engine: Arc<dyn Engine>, limiter: Limiter) -> Self {
        Self {
            engine,
            limiter,
            stages: Vec::new(),
            total: None,
            handlers: BTreeMap::new(),
            guard: None,
            worker: None,
            sole_owner: false,
            rules: AlarmRules::default(),
            sink: Arc::new(LogSink),
        }
    }

    /// Runs the stages of a config.
    #[must_use]
    pub fn pipeline(mut self, config: &PipelineConfig) -> Self {
        self.stages.extend(config.stages.iter().cloned());
        self.total = config.concurrency;
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

    /// The handler of a stage, in place of what the config says.
    #[must_use]
    pub fn handler(mut self, stage: &str, handler: Handler) -> Self {
        self.handlers.insert(stage.to_owned(), (handler, false));
        self
    }

    /// The same for a handler that calls [`Turn::begin`](crate::handler::Turn::begin) itself.
    #[must_use]
    pub fn handler_that_begins(mut self, stage: &str, handler: Handler) -> Self {
        self.handlers.insert(stage.to_owned(), (handler, true));
        self
    }

    /// The program that guards subprocesses; otherwise the running one.
    #[must_use]
    pub fn guard(mut self, guard: GuardProgram) -> Self {
        self.guard = Some(guard);
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

    /// When to raise alarms, and where to send them.
    #[must_use]
    pub fn alarms(mut self, rules: AlarmRules, sink: Arc<dyn AlarmSink>) -> Self {
        (self.rules, self.sink) = (rules, sink);
        self
    }

    /// Starts it on this tokio runtime.
    pub async fn start(mut self) -> Result<Runner, RunError> {
        let names: Vec<Name> = self.stages.iter().map(|stage| stage.name.clone()).collect();
        let configs = std::mem::take(&mut self.stages);
        let mut stages = Vec::with_capacity(configs.len());
        for (index, config) in configs.into_iter().enumerate() {
            stages.push(self.run_stage(config, names.get(index + 1..).unwrap_or_default().to_vec())?);
        }
        let (phase, current) = watch::channel(Phase::Running);
        let run = Arc::new(Run {
            engine: self.engine,
            limiter: self.limiter,
            stages,
            worker: self.worker.clone().unwrap_or_else(host_and_process),
            total: Mutex::new(self.total),
            active: ActiveClaims::default(),
            waiting: Mutex::default(),
            history: Mutex::new(History::default()),
            raised: Mutex::default(),
            wake: Notify::new(),
            phase: current,
        });
        prepare(&run).await?;
        match (self.sole_owner, &self.worker) {
            (true, _) => abandon(&run, None).await?,
            (false, Some(worker)) => abandon(&run, Some(worker)).await?,
            // A process id comes again, also on another machine: claims of an earlier process expire.
            (false, None) => {}
        }
        let tasks = vec![
            tokio::spawn(Dispatcher::new(run.clone()).run()),
            tokio::spawn(upkeep::renew_claims(run.clone())),
            tokio::spawn(upkeep::tidy(run.clone())),
            tokio::spawn(upkeep::observe(run.clone(), self.rules, self.sink)),
        ];
        Ok(Runner { run, tasks, phase })
    }

    fn run_stage(&mut self, config: StageConfig, later: Vec<Name>) -> Result<RunStage, RunError> {
        let stage = config.name.as_str().to_owned();
        let unusable = |cause: BoxError| RunError::Handler { stage: stage.clone(), cause };
        if let Some((brought, begins)) = self.handlers.remove(&stage) {
            let handler = handler::with_timeout(brought, config.timeout);
            return Ok(RunStage { config, handler, begins, subprocess: None, later });
        }
        match config.handler.clone() {
            None => Err(RunError::NoHandler { stage }),
            Some(HandlerConfig::Http(url)) => {
                let handler = handler::http::http(&url).map_err(unusable)?;
                let handler = handler::with_timeout(handler, config.timeout);
                Ok(RunStage { config, handler, begins: false, subprocess: None, later })
            }
            Some(HandlerConfig::Command(command)) => {
                let guard = match &self.guard {
                    Some(guard) => guard.clone(),
                    None => GuardProgram::current().map_err(|error| unusable(error.into()))?,
                };
                let begins = command.begin;
                let subprocess = Subprocess::new(command, guard, config.timeout);
                let handler = handler::handler(subprocess.clone());
                Ok(RunStage { config, handler, begins, subprocess: Some(subprocess), later })
            }
        }
    }
}

/// Tells the engine what it needs to know of the stages.
async fn prepare(run: &Run) -> Result<(), EngineError> {
    for stage in &run.stages {
        let change = StageChange { after: Some(stage.config.after.clone()), ..StageChange::default() };
        run.set_stage(&stage.config.name, change).await?;
    }
    Ok(())
}

/// Ends the claims of processes that died.
async fn abandon(run: &Run, worker: Option<&str>) -> Result<(), EngineError> {
    let abandoned = run.engine.abandon(worker, run.now()).await?;
    if abandoned > 0 {
        tracing::info!(claims = abandoned, "claims of a process that died are open again");
    }
    Ok(())
}

fn host_and_process() -> String {
    let host = rustix::system::uname();
    format!("{}:{}", host.nodename().to_string_lossy(), std::process::id())
}
