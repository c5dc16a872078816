//! Stages that the config lacks, as text.

use tollway::core::Name;
use tollway_pipeline::view::shell_word;
use tollway_pipeline::{StageCounts, State};

use crate::humanize::{count, counted};

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
