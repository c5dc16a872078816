//! One job: its turn begins, its handler works, its claim ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollway::Permit;
use tollway_core::Feedback;
use tollway_core::Span;
use tower::ServiceExt;

use super::conclude::{Concluded, conclude};
use super::outage::is_outage;
use super::stage::RunStage;
use super::{Phase, Run, lock};
use crate::handler::{Answer, Task, Turn};
use crate::{Attempt, Cause, Claim, Claimed, Conclusion, EngineError, Finished, Job, JobCost, StageChange};

/// The pause before a conclusion that could not be stored is stored again.
const STORE_PAUSE: Span = Span::from_secs(1);

/// How long a job that is cut off waits for its turn, to give it back.
const TURN_WITHIN: Duration = Duration::from_secs(1);

/// Does a job. If the runner is cut off before it ends, the claim stays open, and the runner gives it back.
pub(super) async fn work(run: Arc<Run>, stage: Arc<RunStage>, claimed: Claimed, permit: Option<Permit>) {
    let turn = Turn::new(permit);
    tokio::select! {
        biased;
        () = run.reached(Phase::CutOff) => {}
        () = attempt(&run, &stage, &claimed, &turn) => run.active.remove(&claimed.claim),
    }
    // The turn of a job that was cut off. Its handler may be about to begin, and then it keeps the turn.
    let _ = tokio::time::timeout(TURN_WITHIN, end_turn(&turn, &[])).await;
}

async fn attempt(run: &Arc<Run>, stage: &RunStage, claimed: &Claimed, turn: &Turn) {
    if claimed.job.crashes >= stage.config.crashes {
        let attempt =
            Attempt::new(Cause::Crash, "crash: the pipeline or its handler died too often with this job");
        store(run, stage, &claimed.claim, Conclusion::Dead { attempt }).await;
        return;
    }
    run.health.room().await;
    if !stage.begins
        && let Err(error) = turn.begin().await
    {
        tracing::warn!(%error, job = %claimed.job.id, "the call cannot begin; the job is given back");
        release(run, claimed).await;
        return;
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
        return;
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
    store(run, stage, &claimed.claim, conclusion).await;
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
}

/// Ends a claim. While the engine is away, the answer is kept and tried again. A claim that another worker has taken over
/// meanwhile is recognised by its number.
async fn store(run: &Run, stage: &RunStage, claim: &Claim, mut conclusion: Conclusion) {
    let mut kept = None;
    loop {
        let finished = run.engine.finish(claim.clone(), conclusion.clone(), run.now()).await;
        run.health.note(&finished, run.now());
        match finished {
            Ok(Finished::Late) => {
                run.own_events.late(&stage.config.name);
                tracing::warn!(%claim, "late answer: another worker has the job");
                return;
            }
            Ok(_) => {
                run.own_events.concluded(&stage.config.name, &conclusion, run.now());
                return;
            }
            Err(error) if !is_outage(&error) => {
                let refused =
                    Attempt::new(Cause::Failure, &format!("the answer cannot be stored: {}", error.message));
                let was_answer = matches!(conclusion, Conclusion::Done { .. });
                conclusion = Conclusion::Dead { attempt: refused };
                if !was_answer {
                    tracing::error!(%error, %claim, "the end of a claim cannot be stored; it expires");
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, %claim, "an answer cannot be stored; trying again");
                kept.get_or_insert_with(|| run.health.keep(&conclusion));
                run.sleep_until(run.now().plus(STORE_PAUSE)).await;
            }
        }
    }
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
