//! A worker: its job's turn begins, the handler works, the claim ends, and the next job may follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollway::Permit;
use tollway_core::Feedback;
use tollway_core::Span;
use tower::ServiceExt;

use super::conclude::{Concluded, conclude};
use super::slots::Slot;
use super::stage::RunStage;
use super::store::store;
use super::unreachable::Probe;
use super::{CALLS_END_WITHIN, Phase, Run, lock};
use crate::handler::{Answer, Task, Turn};
use crate::{Attempt, Cause, Claim, Claimed, Conclusion, EngineError, Job, JobCost, StageChange};

/// How long a job that is cut off waits for its turn, to give it back.
const TURN_WITHIN: Duration = Duration::from_secs(1);

/// Does a job, and those that its worker gets with the answer to the one before. If the runner is cut off before one ends, the
/// claim stays open, and the runner gives it back.
pub(super) async fn work(
    run: Arc<Run>,
    mut slot: Slot,
    claimed: Claimed,
    permit: Option<Permit>,
    probe: Option<Probe>,
) {
    let mut job = Some((claimed, permit, probe));
    while let Some((claimed, permit, _probe)) = job {
        let stage = run.stages()[slot.stage()].clone();
        let turn = Turn::new(permit);
        let conclusion = tokio::select! {
            biased;
            () = run.reached(Phase::CutOff) => None,
            conclusion = attempt(&run, &stage, &claimed, &turn) => conclusion,
        };
        // The turn of a job that was cut off. Its handler may be about to begin, and then it keeps the turn.
        let _ = tokio::time::timeout(TURN_WITHIN, end_turn(&turn, &[])).await;
        let Some(conclusion) = conclusion else { return };
        let next = tokio::select! {
            biased;
            next = store(&run, &stage, &mut slot, &claimed.claim, conclusion) => next,
            () = run.cut_off_for(CALLS_END_WITHIN) => None,
        };
        match next {
            // Claimed while the runner began to drain.
            Some(next) if run.is_draining() => return release(&run, &next).await,
            next => job = next.map(|next| (next, None, None)),
        }
    }
}

/// Hands a job to its handler. How its claim ends; none: it was given back.
async fn attempt(run: &Arc<Run>, stage: &RunStage, claimed: &Claimed, turn: &Turn) -> Option<Conclusion> {
    if claimed.job.crashes >= stage.config.crashes {
        let attempt =
            Attempt::new(Cause::Crash, "crash: the pipeline or its handler died too often with this job");
        return Some(Conclusion::Dead { attempt });
    }
    run.health.room().await;
    if !stage.begins
        && let Err(error) = turn.begin().await
    {
        tracing::warn!(%error, job = %claimed.job.id, "the call cannot begin; the job is given back");
        release(run, claimed).await;
        return None;
    }
    if !stage.begins {
        run.active.begin(&claimed.claim, run.now());
    }
    run.own_events.called(&stage.config.name);
    let called_at = run.now();
    let answer = call(run, stage, &claimed.job, turn).await;
    let now = run.now();
    if let Answer::Unreachable { error, detail } = answer {
        let why = if detail.is_empty() { error } else { format!("{error}: {detail}") };
        run.unreachable.failed(&stage.config.name, &why, called_at, now);
        turn.not_called().await;
        end_turn(turn, &[]).await;
        release(run, claimed).await;
        return None;
    }
    run.unreachable.answered(&stage.config.name, called_at, now);
    run.own_events.answered(&stage.config.name, now.since(called_at));
    let concluded = conclude(&stage.config, &stage.later, &claimed.job, answer, now);
    let Concluded { conclusion, hold, cost, pause } = concluded;
    if let (Some(hold), Conclusion::Again { attempt, .. }) = (hold, &conclusion) {
        turn.refused(attempt.error()).await;
        hold_policies(run, stage, &claimed.job, hold).await;
    }
    if let Some(reason) = pause {
        pause_stage(run, stage, &reason).await;
    }
    let actual: Vec<(&str, u64)> = cost.iter().map(|(unit, amount)| (unit.as_str(), *amount)).collect();
    end_turn(turn, &actual).await;
    Some(conclusion)
}

/// Whether no attempt of a job has ended.
pub(super) fn is_first_try(job: &Job) -> bool {
    (job.failures, job.crashes, job.rate_limited) == (0, 0, 0)
}

/// Calls the handler. One that panics has crashed.
async fn call(run: &Run, stage: &RunStage, job: &Job, turn: &Turn) -> Answer {
    let deadline = run.now().plus(stage.config.timeout);
    let task = Task { job: job.clone(), deadline, turn: turn.clone() };
    let (handler, turn) = (stage.handler.clone(), turn.clone());
    let mut working = AbortOnDrop(tokio::spawn(async move {
        turn.hand_over().await?;
        handler.oneshot(task).await
    }));
    match (&mut working.0).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Answer::retry(error.to_string()),
        Err(_) => {
            Answer::Crash { error: "the handler panicked".to_owned(), detail: String::new(), pause: false }
        }
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Settles a permit whose call went out, and gives another one back.
async fn end_turn(turn: &Turn, actual: &[(&str, u64)]) {
    let ended = match turn.end().await {
        (None, _) => return,
        (Some(permit), false) => permit.give_back().await.map(drop),
        (Some(permit), true) if actual.is_empty() => permit.done().await,
        (Some(permit), true) => permit.settle_all(actual.iter().copied()).await.map(drop),
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "a permit could not be settled; its cost stays as it was taken");
    }
}

/// Holds every policy that the job takes from: the vendor refused, whichever of them it was.
async fn hold_policies(run: &Run, stage: &RunStage, job: &Job, hold: Span) {
    let cost = if job.cost == JobCost::OF_STAGE { &stage.config.take } else { &job.cost };
    for policy in cost.amounts().into_keys() {
        let feedback = Feedback { hold, ..Feedback::default() };
        if let Err(error) = run.limiter.feedback(&policy, feedback).subject(run.subject.as_str()).await {
            tracing::warn!(%error, policy, "the vendor's hold could not be stored; it applies in this process");
        }
    }
}

pub(super) async fn pause_stage(run: &Run, stage: &RunStage, reason: &str) {
    tracing::error!(stage = %stage.config.name.as_str(), reason, "stage paused; resume it when its handler works");
    lock(&run.paused_here).insert(stage.config.name.clone());
    let paused = StageChange { paused: Some(true), ..StageChange::default() };
    if let Err(error) = run.set_stage(&stage.config.name, paused).await {
        tracing::warn!(%error, "the stage could not be paused");
    }
}

/// Gives a job back that its handler did not get: no try is used, and a batch may start it again.
async fn release(run: &Run, claimed: &Claimed) {
    let claim = &claimed.claim;
    let is_of_first_stage = run.stages().first().is_some_and(|first| first.config.name == claim.stage);
    if let Some(left) = run.jobs_left.as_ref().filter(|_| is_of_first_stage && is_first_try(&claimed.job)) {
        left.fetch_add(1, Ordering::Relaxed);
    }
    if let Err(error) = run.engine.release(vec![claim.clone()], run.now()).await {
        tracing::warn!(%error, %claim, "a claim could not be given back; it expires");
    }
    run.active.end(claim, None);
}

/// Counts a crash of a job that was cut off. Its next claim decides whether it had too many.
pub(super) async fn crash(run: &Run, claim: Claim, error: &str) -> Result<(), EngineError> {
    let attempt = Attempt::new(Cause::Crash, error);
    let conclusion = Conclusion::Again { at: run.now(), attempt };
    run.engine.finish(claim, conclusion, run.now()).await.map(drop)
}

/// Makes a dead letter of a job that cannot even be tried.
pub(super) async fn bury(run: &Run, claimed: Claimed, error: &str) -> Result<(), EngineError> {
    let conclusion = Conclusion::Dead { attempt: Attempt::new(Cause::Failure, error) };
    run.engine.finish(claimed.claim, conclusion, run.now()).await.map(drop)
}
