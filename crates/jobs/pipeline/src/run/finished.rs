//! Whether a runner has anything left to do.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use tollway_core::Name;

use super::stage::first_worked;
use super::{Run, lock};
use crate::{EngineError, StageCounts, State};

/// Stages that this process has paused itself and that no operator has resumed: their jobs wait for an operator.
pub(super) async fn stopped_stages(run: &Run) -> Result<BTreeSet<Name>, EngineError> {
    if lock(&run.paused_here).is_empty() {
        return Ok(BTreeSet::new());
    }
    let settings = run.engine.stages().await?;
    let mut paused_here = lock(&run.paused_here);
    paused_here.retain(|name| settings.iter().any(|known| known.stage == *name && known.paused));
    Ok(paused_here.clone())
}

/// How many jobs there are for which the runner goes on: those of its stages, and of stages that may hand on to them.
pub(super) fn open_jobs(run: &Run, counts: &[StageCounts], stopped: &BTreeSet<Name>) -> u64 {
    let stages = run.stages();
    let first = first_worked(&stages);
    let last = stages.iter().rposition(|stage| stage.works).unwrap_or(0);
    let batch_started = run.jobs_left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0);
    let open = |(index, name): (usize, &Name)| {
        let of = |states: &[State]| {
            let found = counts.iter().find(|counts| counts.stage == *name);
            found.map_or(0, |counts| states.iter().map(|state| counts.of(*state)).sum::<u64>())
        };
        match index {
            // The batch has begun: jobs before it are not its own.
            _ if batch_started && index < first => 0,
            _ if batch_started && index == first || stopped.contains(name) => of(&[State::Running]),
            _ => of(&[State::Ready, State::Delayed, State::Running]),
        }
    };
    stages.iter().take(last + 1).map(|stage| &stage.config.name).enumerate().map(open).sum()
}
