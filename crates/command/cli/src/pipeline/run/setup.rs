//! Puts limiter, engine and runner together.

use std::sync::Arc;

use tollway::Limiter;
use tollway_config::ConfigFile;
use tollway_pipeline::run::{RunError, Runner, RunnerBuilder};
use tollway_pipeline::{Capabilities, Engine, OpenedEngine, PipelineConfig, SocketServer};

use super::super::session::Which;
use super::wait_for_engine::{StartError, wait_for_engine};
use super::{Arguments, PipelineAlarms, Summary};
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::notices::Notices;
use crate::pipeline::engine_opener;
use crate::serve;

/// Everything that runs.
pub(super) struct Setup {
    pub(super) config: PipelineConfig,
    /// The file to watch for changes.
    pub(super) file: ConfigFile<WholeConfig>,
    pub(super) limiter: Limiter,
    pub(super) engine: Arc<dyn Engine>,
    /// Answers other commands while it is kept.
    pub(super) commands: Option<SocketServer>,
    pub(super) runner: Runner,
    pub(super) notices: Arc<Notices>,
    /// Counts from before the first job.
    pub(super) summary: Summary,
}

impl Setup {
    pub(super) async fn new(
        arguments: &Arguments,
        which: &Which,
        context: &Context,
    ) -> Result<Self, Failure> {
        let file: ConfigFile<WholeConfig> = ConfigFile::load(context.config_path()?)?;
        let config = which.find(file.config().pipelines())?.clone();
        let store = context.store(file.config().limits())?;
        let policies = config.policies();
        let limiter = serve::limiter(file.config().limits(), &store, policies.iter().map(String::as_str))?;
        serve::read_set_limits(&limiter).await;
        serve::send_incidents(&limiter)?;
        let notices = Notices::new(config.name.as_str(), &limiter)?;
        notices.check().await;
        let within = (!arguments.stay).then_some(arguments.wait_for_engine);
        let only = arguments.stages(&config)?;
        let mut opened = None;
        let (runner, summary) = wait_for_engine(&config.engine, within, async || {
            // One that is open stays open: it connects again by itself.
            let opened = match &mut opened {
                Some(opened) => opened,
                none => none.insert(engine_opener().open_to_run(&config.engine).await?),
            };
            let summary = Summary::begin(&config, only.as_deref(), &*opened.engine).await?;
            let mut builder = builder(arguments, opened, &config, &limiter, &notices);
            if let Some(only) = &only {
                builder = builder.only(only.clone());
            }
            match builder.start().await {
                Ok(runner) => Ok((runner, summary)),
                Err(RunError::Engine(error)) => Err(StartError::Engine(error)),
                Err(error) => Err(StartError::Other(error.into())),
            }
        })
        .await?;
        let Some(OpenedEngine { engine, commands, .. }) = opened else {
            return Err(Failure::new(Exit::FAILED, "the engine was not opened"));
        };
        remark_on(&engine.capabilities(), context);
        Ok(Self { config, file, limiter, engine, commands, runner, notices, summary })
    }
}

fn builder(
    arguments: &Arguments,
    opened: &OpenedEngine,
    config: &PipelineConfig,
    limiter: &Limiter,
    notices: &Arc<Notices>,
) -> RunnerBuilder {
    let mut builder = Runner::builder(opened.engine.clone(), limiter.clone())
        .pipeline(config)
        .alarms(config.alarms.clone(), Arc::new(PipelineAlarms(notices.clone())));
    if opened.sole_owner {
        builder = builder.sole_owner();
    } else if let Some(worker) = &arguments.worker {
        builder = builder.worker(worker);
    }
    if let Some(jobs) = arguments.jobs {
        builder = builder.jobs_max(jobs);
    }
    builder
}

/// What this engine cannot promise.
fn remark_on(capabilities: &Capabilities, context: &Context) {
    let missing = [
        (capabilities.atomic_hand_off, "a crash can hand outputs on twice"),
        (capabilities.exact_counts, "counts are estimates"),
        (capabilities.ordered, "jobs are not claimed in order of priority and age"),
        (capabilities.inspectable, "waiting jobs cannot be listed or edited"),
        (capabilities.groups, "no stage can wait for a whole group"),
        (capabilities.claim_by_cost, "every job takes what its stage says"),
        (
            capabilities.delivers_once,
            "a job can come again after its retention; until then, its key is known",
        ),
    ];
    for (_, text) in missing.iter().filter(|(promised, _)| !promised) {
        context.output().note(format_args!("with this engine, {text}"));
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Engine(error) => error.into(),
            other => Self::new(Exit::CONFIG, other),
        }
    }
}
