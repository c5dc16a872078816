//! A stage with its handler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tollway_core::Name;
use tower::BoxError;

use super::RunError;
use crate::handler::guard::GuardProgram;
use crate::handler::subprocess::Subprocess;
use crate::handler::{self, Answer, Handler};
use crate::{HandlerConfig, JobCost, StageConfig};

/// A stage with its handler.
pub(super) struct RunStage {
    pub(super) config: StageConfig,
    pub(super) handler: Handler,
    /// The handler says itself when it calls the vendor.
    pub(super) begins: bool,
    pub(super) subprocess: Option<Subprocess>,
    /// The stages that outputs may name.
    pub(super) later: Vec<Name>,
    /// This process works on it.
    pub(super) works: bool,
}

impl RunStage {
    /// What a job of this cost takes from the limiter; empty: nothing.
    pub(super) fn place_cost(&self, cost: &JobCost) -> JobCost {
        if *cost == JobCost::OF_STAGE { self.config.take.clone() } else { cost.clone() }
    }

    /// The costs of jobs that this place is good for.
    pub(super) fn job_costs(&self, place: &JobCost) -> Vec<JobCost> {
        let of_stage = (self.config.take == *place).then_some(JobCost::OF_STAGE);
        of_stage.into_iter().chain([place.clone()]).collect()
    }
}

/// The index of the first stage that this process works on.
pub(super) fn first_worked(stages: &[Arc<RunStage>]) -> usize {
    stages.iter().position(|stage| stage.works).unwrap_or(0)
}

/// Where handlers come from: the program brings them, or the config names them.
#[derive(Default)]
pub(super) struct Handlers {
    /// By stage; and whether it says itself when it calls the vendor.
    pub(super) brought: BTreeMap<String, (Handler, bool)>,
    pub(super) guard: Option<GuardProgram>,
    /// The stages that this process works on; none: all.
    pub(super) only: Option<BTreeSet<Name>>,
}

impl Handlers {
    /// Gives every stage its handler. Processes are started when a job needs them.
    pub(super) fn stages(&self, configs: Vec<StageConfig>) -> Result<Vec<RunStage>, RunError> {
        let names: Vec<Name> = configs.iter().map(|stage| stage.name.clone()).collect();
        let later = |index: usize| names.get(index + 1..).unwrap_or_default().to_vec();
        configs.into_iter().enumerate().map(|(index, config)| self.stage(config, later(index))).collect()
    }

    /// A stage to work on that is not among these.
    pub(super) fn unknown(&self, configs: &[StageConfig]) -> Option<String> {
        let known = |name: &&Name| configs.iter().any(|config| config.name == **name);
        let only = self.only.iter().flatten();
        only.into_iter().find(|name| !known(name)).map(|name| name.as_str().to_owned())
    }

    fn stage(&self, config: StageConfig, later: Vec<Name>) -> Result<RunStage, RunError> {
        let stage = config.name.as_str().to_owned();
        if self.only.as_ref().is_some_and(|only| !only.contains(&config.name)) {
            let handler =
                handler::handler_fn(|_| async { Answer::retry("another process works on this stage") });
            return Ok(RunStage { config, handler, begins: false, subprocess: None, later, works: false });
        }
        let unusable = |cause: BoxError| RunError::Handler { stage: stage.clone(), cause };
        if let Some((brought, begins)) = self.brought.get(&stage).cloned() {
            let handler = handler::with_timeout(brought, config.timeout);
            return Ok(RunStage { config, handler, begins, subprocess: None, later, works: true });
        }
        match config.handler.clone() {
            None => Err(RunError::NoHandler { stage }),
            Some(HandlerConfig::Http(http)) => {
                let handler = handler::http::http_within(&http, config.timeout).map_err(unusable)?;
                let handler = handler::with_timeout(handler, config.timeout);
                Ok(RunStage { config, handler, begins: false, subprocess: None, later, works: true })
            }
            Some(HandlerConfig::Command(command)) => {
                let guard = match &self.guard {
                    Some(guard) => guard.clone(),
                    None => GuardProgram::current().map_err(|error| unusable(error.into()))?,
                };
                let begins = command.begin;
                let subprocess = Subprocess::new(command, guard, config.timeout);
                let handler = handler::handler(subprocess.clone());
                Ok(RunStage { config, handler, begins, subprocess: Some(subprocess), later, works: true })
            }
        }
    }
}
