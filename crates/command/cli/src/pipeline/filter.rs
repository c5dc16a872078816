//! Which jobs a command is about.

use tollway_pipeline::{Administration, Filter, JobId, PipelineConfig, State};

use super::stage_names::known_stage;
use crate::complete_names;
use crate::failure::Failure;

/// Which jobs. Several options match jobs that fit all of them.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct FilterArguments {
    /// Only the job with this number
    #[arg(long, value_name = "N")]
    id: Option<u64>,
    /// Only jobs with this key, in any stage
    #[arg(long)]
    key: Option<String>,
    /// Only jobs of this stage
    #[arg(long, value_name = "NAME", add = complete_names::stages())]
    stage: Option<String>,
    /// Only jobs of this group, such as a job_id
    #[arg(long)]
    group: Option<String>,
    /// Only jobs whose last error contains this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

/// Which jobs a command changes: those of a filter, or all on purpose.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    #[command(flatten)]
    filter: FilterArguments,
    /// All of them
    #[arg(long)]
    all: bool,
}

impl Selection {
    /// Refuses no filter, which would be all jobs by mistake.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match (self.filter.is_empty(), self.all) {
            (true, false) => Err(Failure::usage("which jobs?")
                .advise("give --id, --key, --stage, --group or --error, or --all for all of them")),
            (false, true) => {
                Err(Failure::usage("--all goes with no other filter").advise("leave one of them out"))
            }
            _ => Ok(()),
        }
    }

    /// The filter, for jobs in this state only if one is given.
    pub(super) async fn filter(
        &self,
        state: Option<State>,
        config: &PipelineConfig,
        engine: &dyn Administration,
    ) -> Result<Filter, Failure> {
        self.check()?;
        self.filter.filter(state, config, engine).await
    }

    /// Whether anything was given.
    pub(super) fn is_given(&self) -> bool {
        self.all || !self.filter.is_empty()
    }

    /// The one job that it names, as text.
    pub(super) fn one_job(&self) -> Option<String> {
        let FilterArguments { id, key, .. } = &self.filter;
        id.map(|id| id.to_string()).or_else(|| key.clone())
    }
}

impl Selection {
    /// Whether it takes whole stages: no filter looks at single jobs.
    pub(super) fn takes_whole_stages(&self) -> bool {
        FilterArguments { stage: None, ..self.filter.clone() }.is_empty()
    }
}

impl FilterArguments {
    /// Whether every job matches.
    pub(super) fn is_empty(&self) -> bool {
        let Self { id, key, stage, group, error } = self;
        id.is_none() && key.is_none() && stage.is_none() && group.is_none() && error.is_none()
    }

    /// The filter, for jobs in this state only if one is given. Its stage is in the config, or has jobs.
    pub(super) async fn filter(
        &self,
        state: Option<State>,
        config: &PipelineConfig,
        engine: &dyn Administration,
    ) -> Result<Filter, Failure> {
        let stage = match &self.stage {
            Some(name) => Some(known_stage(config, engine, name).await?),
            None => None,
        };
        Ok(Filter {
            job: self.id.map(JobId::new),
            stage,
            state,
            group: self.group.clone(),
            key: self.key.clone(),
            error: self.error.clone(),
        })
    }
}
