//! Which jobs a command is about.

use tollway_pipeline::view::JobFilter;

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
        match (self.jobs().is_empty(), self.all) {
            (true, false) => Err(Failure::usage("which jobs?")
                .advise("give --id, --key, --stage, --group or --error, or --all for all of them")),
            (false, true) => {
                Err(Failure::usage("--all goes with no other filter").advise("leave one of them out"))
            }
            _ => Ok(()),
        }
    }

    /// Which jobs; all of them without a filter.
    pub(super) fn jobs(&self) -> JobFilter {
        self.filter.jobs()
    }

    /// Whether anything was given.
    pub(super) fn is_given(&self) -> bool {
        self.all || !self.jobs().is_empty()
    }
}

impl FilterArguments {
    /// Which jobs.
    pub(super) fn jobs(&self) -> JobFilter {
        let Self { id, key, stage, group, error } = self.clone();
        JobFilter { id, key, stage, group, error }
    }
}
