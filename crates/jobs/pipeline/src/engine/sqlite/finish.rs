//! The end of a claim: done with outputs, again, or dead.

use rusqlite::params;
use tollway_core::Timestamp;

use super::error::Failure;
use super::evidence;
use super::rows::{micros, stored};
use super::session::Session;
use super::work::{OpenClaim, fenced, insert};
use crate::engine::checks::check_output_key;
use crate::engine::counters::Kind;
use crate::{Claim, Conclusion, EngineError, Finished, NewJob, Output, State};

pub(super) fn finish(
    session: &mut Session<'_>,
    claim: &Claim,
    conclusion: Conclusion,
    now: Timestamp,
) -> Result<Finished, Failure> {
    let Some(open) = fenced(session, claim)? else { return late(session, claim) };
    match conclusion {
        Conclusion::Done { outputs, result } => done(session, claim, &open, &outputs, result.as_deref(), now),
        Conclusion::Again { at, attempt } => {
            evidence::record(session, open.stage, open.id, &attempt, now)?;
            let state = if at > now { State::Delayed } else { State::Ready };
            end(session, &open, state, at, now)?;
            Ok(Finished::Committed { outputs: 0, joined: 0 })
        }
        Conclusion::Dead { attempt } => {
            evidence::record(session, open.stage, open.id, &attempt, now)?;
            end(session, &open, State::Dead, now, now)?;
            Ok(Finished::Committed { outputs: 0, joined: 0 })
        }
    }
}

/// Ends the claim and moves its job.
fn end(
    session: &mut Session<'_>,
    open: &OpenClaim,
    state: State,
    due_at: Timestamp,
    now: Timestamp,
) -> Result<(), Failure> {
    session
        .connection
        .prepare_cached("UPDATE jobs SET state = ?2, open = 0, due_at = ?3, changed_at = ?4 WHERE id = ?1")?
        .execute(params![open.id, state.number(), micros(due_at), micros(now)])?;
    session.moved(open.stage, open.state, state);
    Ok(())
}

fn done(
    session: &mut Session<'_>,
    claim: &Claim,
    open: &OpenClaim,
    outputs: &[Output],
    result: Option<&str>,
    now: Timestamp,
) -> Result<Finished, Failure> {
    end(session, open, State::Done, now, now)?;
    session
        .connection
        .prepare_cached(
            "INSERT INTO completions (job, stage, claim_number, finished_at, outputs, result)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![open.id, open.stage, stored(claim.number), micros(now), outputs.len(), result])?;
    session.count(open.stage, Kind::Completed, 1);
    let mut joined = 0;
    for (index, output) in outputs.iter().enumerate() {
        joined += usize::from(hand_on(session, claim, open, index, output, now)?);
    }
    if let Some(group) = &open.group {
        session.group_moved(group, now);
    }
    Ok(Finished::Committed { outputs: outputs.len() - joined, joined })
}

/// Enqueues an output. True: it joined a job that was there.
fn hand_on(
    session: &mut Session<'_>,
    claim: &Claim,
    open: &OpenClaim,
    index: usize,
    output: &Output,
    now: Timestamp,
) -> Result<bool, Failure> {
    let mut job = NewJob {
        stage: output.stage.clone(),
        key: output.join.clone().unwrap_or_else(|| claim.output_key(&open.key, index)),
        group: output.group.clone().or_else(|| open.group.clone()),
        data: output.data.clone(),
        priority: open.priority,
        cost: output.cost.clone(),
        not_before: Timestamp::EPOCH,
        again: false,
    };
    check_output_key(&job.key, index)?;
    let mut enqueued = insert(session, &job, now)?;
    if output.join.is_none() && enqueued.known().is_some_and(|older| older < claim.job) {
        job.key = claim.output_key_again(&job.key);
        check_output_key(&job.key, index)?;
        enqueued = insert(session, &job, now)?;
    }
    match enqueued.known() {
        None => Ok(false),
        Some(_) if output.join.is_some() => Ok(true),
        // Only a caller can have taken the key. To go on would lose the output.
        Some(other) => {
            let (stage, key) = (output.stage.as_str(), &job.key);
            let message =
                format!("output {index} would be {key:?} in stage {stage}, which is job {other} already");
            Err(EngineError::caller(message).into())
        }
    }
}

/// The claim is not open. Either this call was committed before, or the answer is late.
fn late(session: &mut Session<'_>, claim: &Claim) -> Result<Finished, Failure> {
    let Some(stage) = session.stage(&claim.stage)?.map(|stage| stage.id) else { return Ok(Finished::Late) };
    let repeated = session
        .connection
        .prepare_cached(
            "SELECT 1 FROM completions WHERE job = ?1 AND claim_number = ?2 AND stage = ?3
             UNION ALL
             SELECT 1 FROM jobs JOIN evidence ON evidence.job = id AND evidence.claim_number = jobs.claim_number
             WHERE id = ?1 AND jobs.claim_number = ?2 AND stage = ?3",
        )?
        .exists(params![stored(claim.job.get()), stored(claim.number), stage])?;
    if repeated {
        return Ok(Finished::Repeated);
    }
    session.count(stage, Kind::Late, 1);
    Ok(Finished::Late)
}
