//! The end of a claim is stored, and its worker gets its next job with the answer: a job costs one transaction.
//!
//! That holds for stages that take nothing. Quota is taken before a claim, and only the dispatcher takes it.

use tokio::task::AbortHandle;
use tollway_core::Span;

use super::outage::is_outage;
use super::slots::{NextStages, Slot};
use super::stage::{RunStage, first_worked};
use super::{Run, SharedStages};
use crate::{Attempt, Cause, Claim, ClaimRequest, Claimed, Conclusion, Finished, JobCost};

/// The pause before a conclusion that could not be stored is stored again.
const STORE_PAUSE: Span = Span::from_secs(1);

/// Ends a claim, and claims the next job for its slot, if there is one. While the engine is away, the answer is kept and tried
/// again. A claim that another worker has taken over meanwhile is recognised by its number.
pub(super) async fn store(
    run: &Run,
    stage: &RunStage,
    slot: &mut Slot,
    claim: &Claim,
    mut conclusion: Conclusion,
) -> Option<Claimed> {
    let worker = run.active.conclude(claim);
    let mut kept = None;
    loop {
        let stages = run.stages();
        let candidates = worker.as_ref().map(|_| candidates(run, &stages, slot.stage()));
        let next = slot.keep_for(candidates.unwrap_or_default());
        let request = |index: &usize| {
            let config = &stages[*index].config;
            ClaimRequest::new(&config.name, &run.worker, config.visibility_timeout).cost(JobCost::OF_STAGE)
        };
        let requests = next.stages().iter().map(request).collect();
        let finished =
            run.engine.finish_and_claim(claim.clone(), conclusion.clone(), requests, run.now()).await;
        run.health.note(&finished, run.now());
        match finished {
            Ok((finished, claimed)) => {
                if finished == Finished::Late {
                    run.own_events.late(&stage.config.name);
                    tracing::warn!(%claim, "late answer: another worker has the job");
                } else {
                    run.own_events.concluded(&stage.config.name, &conclusion, run.now());
                }
                return go_on(run, &stages, claim, claimed, next, worker);
            }
            Err(error) if !is_outage(&error) => {
                let refused =
                    Attempt::new(Cause::Failure, &format!("the answer cannot be stored: {}", error.message));
                let was_answer = matches!(conclusion, Conclusion::Done { .. });
                conclusion = Conclusion::Dead { attempt: refused };
                if !was_answer {
                    tracing::error!(%error, %claim, "the end of a claim cannot be stored; it expires");
                    run.active.end(claim, None);
                    return None;
                }
            }
            Err(error) => {
                tracing::debug!(%error, %claim, "an answer cannot be stored; trying again");
                drop(next);
                kept.get_or_insert_with(|| run.health.keep(&conclusion));
                run.sleep_until(run.now().plus(STORE_PAUSE)).await;
            }
        }
    }
}

/// The claim has ended, and its worker goes on with the next one.
fn go_on(
    run: &Run,
    stages: &SharedStages,
    ended: &Claim,
    claimed: Option<Claimed>,
    next: NextStages<'_>,
    worker: Option<AbortHandle>,
) -> Option<Claimed> {
    let of_stage = |index: &usize, claimed: &Claimed| stages[*index].config.name == claimed.claim.stage;
    let goes_on = claimed.zip(worker).and_then(|(claimed, worker)| {
        let index = next.stages().iter().copied().find(|index| of_stage(index, &claimed))?;
        Some((claimed, index, worker))
    });
    let Some((claimed, index, worker)) = goes_on else {
        run.active.end(ended, None);
        return None;
    };
    next.choose(index);
    run.active.end(ended, Some((claimed.claim.clone(), index, worker)));
    Some(claimed)
}

/// The stages whose next job may follow one of this stage in its slot, the first first: as the dispatcher would choose, and only
/// where it has nothing else to look at.
fn candidates(run: &Run, stages: &SharedStages, stage: usize) -> Vec<usize> {
    let takes_nothing = |index: &usize| stages[*index].config.take == JobCost::OF_STAGE;
    // A small batch counts the jobs of its first stage before they are claimed.
    let batch = run.jobs_left.as_ref().map(|_| first_worked(stages));
    let may_start =
        |index: &usize| Some(*index) != batch && run.unreachable.is_reachable(&stages[*index].config.name);
    match run.slots.are_shared() {
        // Earlier stages must not overtake a stage that waits for quota.
        true => {
            let worked = (0..stages.len()).rev().filter(|index| stages[*index].works);
            worked.take_while(takes_nothing).filter(may_start).collect()
        }
        false => Some(stage).filter(takes_nothing).filter(may_start).into_iter().collect(),
    }
}
