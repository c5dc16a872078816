//! Names of stages: those of the config, and those that only the jobs know.

use tollway::core::Name;
use tollway_pipeline::run::progress::unlisted;
use tollway_pipeline::{Administration, PipelineConfig, StageCounts, State};

use super::job_view::shell_word;
use super::session::stage_of;
use crate::failure::Failure;
use crate::humanize::{count, counted};

/// A stage of the config, or one that has jobs although the config lacks it.
pub(super) async fn known_stage(
    config: &PipelineConfig,
    engine: &dyn Administration,
    name: &str,
) -> Result<Name, Failure> {
    match stage_of(config, name) {
        Ok(stage) => Ok(stage),
        Err(unknown) => {
            let counts = engine.counts().await?;
            let found = counts.into_iter().find(|counts| counts.stage.as_str() == name);
            found.map(|counts| counts.stage).ok_or(unknown)
        }
    }
}

/// Stages that the config lacks, with jobs that have not left.
pub(super) fn not_in_config(counts: &[StageCounts], config: &PipelineConfig) -> Vec<StageCounts> {
    let names: Vec<Name> = config.stages.iter().map(|stage| stage.name.clone()).collect();
    unlisted(counts, &names)
}

/// `autotag has 12 jobs (9 ready, 3 dead), and is not in the config`.
pub(super) fn remark(counts: &StageCounts) -> String {
    let states = State::ALL.into_iter().filter(|state| !state.has_left() && counts.of(*state) > 0);
    let states: Vec<String> = states.map(|state| format!("{} {state}", count(counts.of(state)))).collect();
    let jobs = counted(counts.open(), "jobs");
    format!("{} has {jobs} ({}), and is not in the config", counts.stage, states.join(", "))
}

/// The command that moves the jobs of such a stage.
pub(super) fn move_command(stage: &Name) -> String {
    format!("tollway pipeline move --from {} --to STAGE", shell_word(stage.as_str()))
}

/// The names, for a sentence.
pub(super) fn names(stages: &[StageCounts]) -> String {
    stages.iter().map(|counts| counts.stage.as_str()).collect::<Vec<_>>().join(", ")
}
