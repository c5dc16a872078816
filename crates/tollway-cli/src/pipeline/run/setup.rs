//! Puts limiter, engine and runner together.

use std::sync::Arc;

use tollway::Limiter;
use tollway_config::ConfigFile;
use tollway_pipeline::run::{RunError, Runner};
use tollway_pipeline::{Capabilities, Engine, PipelineConfig, SocketServer};

use super::super::session::Which;
use super::{Arguments, PipelineAlarms};
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::notices::Notices;
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
        let opened = config.engine.open_to_run().await?;
        remark_on(&opened.engine.capabilities(), context);
        let mut builder = Runner::builder(opened.engine.clone(), limiter.clone())
            .pipeline(&config)
            .alarms(config.alarms.clone(), Arc::new(PipelineAlarms(notices.clone())));
        if opened.sole_owner {
            builder = builder.sole_owner();
        } else if let Some(worker) = &arguments.worker {
            builder = builder.worker(worker);
        }
        if let Some(jobs) = arguments.jobs {
            builder = builder.jobs_max(jobs);
        }
        if let Some(only) = arguments.stages(&config)? {
            builder = builder.only(only);
        }
        let runner = builder.start().await?;
        Ok(Self { config, file, limiter, engine: opened.engine, commands: opened.commands, runner, notices })
    }
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
