//! The end of a claim: done with outputs, again, or dead.

use rusqlite::params;
use tollway_core::Timestamp;

use super::error::Failure;
use super::rows::{micros, stored};
use super::session::Session;
use super::transitions::{StoredJob, apply};
use super::work::{claim_first, fenced, insert};
use crate::engine::checks::check_output_key;
use crate::engine::counters::Kind;
use crate::job::transition::JobCall;
use crate::{Claim, ClaimRequest, Claimed, Conclusion, EngineError, Finished, Output};

pub(super) fn finish_and_claim(
    session: &mut Session<'_>,
    claim: &Claim,
    conclusion: Conclusion,
    next: &[ClaimRequest],
    now: Timestamp,
) -> Result<(Finished, Option<Claimed>), Failure> {
    let (woke, mark) = (session.woke, session.mark());
    let finished = finish(session, claim, conclusion, now)?;
    // A held job may be the next one.
    session.release_groups()?;
    let claimed = claim_first(session, next, now)?;
    // A job that this call makes ready and claims is none for others.
    session.woke = woke || session.more_are_ready_since(mark);
    Ok((finished, claimed))
}

fn finish(
    session: &mut Session<'_>,
    claim: &Claim,
    conclusion: Conclusion,
    now: Timestamp,
) -> Result<Finished, Failure> {
    let Some(open) = fenced(session, claim)? else { return late(session, claim) };
    match conclusion {
        Conclusion::Done { outputs, result } => done(session, claim, &open, &outputs, result.as_deref(), now),
        Conclusion::Again { at, attempt } => {
            apply(session, &open, JobCall::Again { at, attempt: &attempt }, now)?;
            Ok(Finished::Committed { outputs: 0, joined: 0 })
        }
        Conclusion::Dead { attempt } => {
            apply(session, &open, JobCall::Bury { attempt: &attempt }, now)?;
            Ok(Finished::Committed { outputs: 0, joined: 0 })
        }
    }
}

fn done(
    session: &mut Session<'_>,
    claim: &Claim,
    open: &StoredJob,
    outputs: &[Output],
    result: Option<&str>,
    now: Timestamp,
) -> Result<Finished, Failure> {
    apply(session, open, JobCall::Done, now)?;
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
    Ok(Finished::Committed { outputs: outputs.len() - joined, joined })
}

/// Enqueues an output. True: it joined a job that was there.
fn hand_on(
    session: &mut Session<'_>,
    claim: &Claim,
    open: &StoredJob,
    index: usize,
    output: &Output,
    now: Timestamp,
) -> Result<bool, Failure> {
    let key = output.join.clone().unwrap_or_else(|| claim.output_key(&open.key, index));
    let mut job = output.job(key, open.group.as_ref(), open.life.priority);
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
