//! The pipeline of a command: its config, and the jobs.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tollway::{Config, Limiter, Timestamp};
use tollway_pipeline::view::{ViewError, Wording, stage_of};
use tollway_pipeline::{Engine, EngineError, EngineFault, EngineUrl, JobError, PipelineConfig};

use crate::complete_names;
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::pipeline::engine_opener;

/// How long opening the jobs may take without a word.
const SAY_AFTER: Duration = Duration::from_secs(2);

/// Which pipeline of the config.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// The pipeline, if the config has several
    #[arg(long, short, global = true, value_name = "NAME", add = complete_names::pipelines())]
    pub(super) pipeline: Option<String>,
}

impl Which {
    /// The pipeline's config, and the limits it takes from.
    pub(super) fn config(&self, context: &Context) -> Result<(PipelineConfig, Config), Failure> {
        let config = WholeConfig::load(context.config_path()?)?;
        let pipeline = self.find(config.pipelines())?.clone();
        Ok((pipeline, config.into_limits()))
    }

    /// How sentences about this pipeline name times and commands.
    pub(super) fn wording(&self) -> Wording {
        Wording { zone: TimeZone::system(), pipeline: self.pipeline.clone() }
    }

    /// A command for the user to type, for the same pipeline.
    pub(super) fn command(&self, rest: &str) -> String {
        self.wording().command(rest)
    }

    /// The named one, or the only one.
    pub(super) fn find<'p>(&self, pipelines: &'p [PipelineConfig]) -> Result<&'p PipelineConfig, Failure> {
        let names = || pipelines.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&self.pipeline, pipelines) {
            (_, []) => Err(Failure::new(Exit::CONFIG, "the config has no pipeline").advise(
                "add [pipelines.NAME] with an engine and stages; docs/guide/pipeline.md has one to copy",
            )),
            (None, [only]) => Ok(only),
            (None, _) => {
                let several = format!("the config has several pipelines: {}", names());
                Err(Failure::usage(several).advise("name one: --pipeline NAME"))
            }
            (Some(name), _) => {
                let found = pipelines.iter().find(|known| known.name.as_str() == name);
                found.ok_or_else(|| {
                    Failure::not_found(format!("there is no pipeline {name:?}"))
                        .advise(format!("there are: {}", names()))
                })
            }
        }
    }
}

/// The jobs of a pipeline, for a command beside the process that runs it.
pub(super) struct Session<'c> {
    pub(super) config: PipelineConfig,
    pub(super) limits: Config,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) context: &'c Context,
    runtime: tokio::runtime::Runtime,
}

impl<'c> Session<'c> {
    /// Reaches the jobs. Without `create`, there must be some.
    pub(super) fn open(which: &Which, context: &'c Context, create: bool) -> Result<Self, Failure> {
        let (config, limits) = which.config(context)?;
        let runtime = runtime()?;
        let opening = engine_opener().open_beside(&config.engine, create, |error| {
            context.output().warning(format_args!("jobs are read from their file: {}", error.message));
        });
        let engine = runtime.block_on(noted_when_slow(&config.engine, opening, context))?;
        Ok(Self { config, limits, engine, context, runtime })
    }

    /// Waits for an answer of the engine, or for anything else.
    pub(super) fn wait<T, E: Into<Failure>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        self.runtime.block_on(answer).map_err(Into::into)
    }

    /// The time of the jobs.
    pub(super) fn now(&self) -> Timestamp {
        self.engine.time(self.context.now())
    }

    /// The limits that the stages take from.
    pub(super) fn limiter(&self) -> Result<Limiter, Failure> {
        let _in_runtime = self.runtime.enter();
        self.context.limiter(&self.limits)
    }

    /// Checks that a stage is one of the config's.
    pub(super) fn stage(&self, name: &str) -> Result<tollway::core::Name, Failure> {
        Ok(stage_of(&self.config, name)?)
    }
}

/// Waits for the jobs to be opened, and says so if that takes long.
async fn noted_when_slow<T>(engine: &EngineUrl, opening: impl Future<Output = T>, context: &Context) -> T {
    let mut opening = pin!(opening);
    match tokio::time::timeout(SAY_AFTER, &mut opening).await {
        Ok(opened) => opened,
        Err(_) => {
            context.output().note(format_args!("waiting for {engine}, which does not answer yet"));
            opening.await
        }
    }
}

/// The runtime of a command that is not a server.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}")))
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match error.fault {
            EngineFault::Caller => Exit::USAGE,
            EngineFault::Busy => Exit::DENIED,
            EngineFault::Storage | EngineFault::Network => Exit::STORE,
        };
        match error.fault {
            EngineFault::Caller => Self::new(exit, error.message),
            _ => Self::new(exit, error),
        }
    }
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        let (exit, message, advice) = match error {
            ViewError::NotFound { message, advice } => (Exit::NOT_FOUND, message, advice),
            ViewError::Ambiguous { message, advice } => (Exit::USAGE, message, advice),
            ViewError::Refused { message, advice } => (Exit::FAILED, message, advice),
            ViewError::Engine(error) => return error.into(),
        };
        let failure = Self::new(exit, message);
        if advice.is_empty() { failure } else { failure.advise(advice) }
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        Self::new(Exit::DATA, error)
    }
}
