//! What workers do: enqueue, peek, claim, renew, release.

use rusqlite::{Connection, OptionalExtension, params};
use tollway_core::{Name, Span, Timestamp};

use super::error::Failure;
use super::rows::{SELECT_JOBS, job, micros, stored, time};
use super::session::Session;
use super::transitions::{StoredJob, apply, apply_for, select_stored};
use crate::bounds::BATCH_MAX;
use crate::engine::counters::Kind;
use crate::engine::moving::{MOVED_MARK, MOVING_MARK};
use crate::job::transition::{JobCall, entering};
use crate::{Claim, ClaimRequest, Claimed, Enqueued, JobCost, JobId, NewJob, Peek, State};

pub(super) fn enqueue(
    session: &mut Session<'_>,
    jobs: &[NewJob],
    now: Timestamp,
) -> Result<Vec<Enqueued>, Failure> {
    jobs.iter().map(|job| insert(session, job, now)).collect()
}

/// Inserts a job, unless its stage knows the key.
pub(super) fn insert(session: &mut Session<'_>, job: &NewJob, now: Timestamp) -> Result<Enqueued, Failure> {
    let stage = session.stage_id(&job.stage)?;
    let state = entry_state(session, &job.stage, job.group.is_some(), job.not_before, now)?;
    let connection = session.connection;
    let inserted = connection
        .prepare_cached(
            "INSERT INTO jobs (stage, state, priority, due_at, created_at, changed_at, cost, key, \"group\")
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8) ON CONFLICT (stage, key) DO NOTHING",
        )?
        .execute(params![
            stage,
            state.number(),
            job.priority,
            micros(job.not_before),
            micros(now),
            job.cost.as_str(),
            job.key,
            job.group
        ])?;
    if inserted == 0 {
        return known(session, stage, job, now);
    }
    let id = connection.last_insert_rowid();
    connection
        .prepare_cached("INSERT INTO data (job, data) VALUES (?1, ?2)")?
        .execute(params![id, job.data])?;
    session.count(stage, Kind::Jobs(state), 1);
    session.count(stage, Kind::Enqueued, 1);
    session.woke |= state == State::Ready;
    if let Some(group) = &job.group {
        session.group_moved(group, now);
    }
    Ok(Enqueued::New(JobId::new(id.unsigned_abs())))
}

/// A key that its stage knows. A new job only if it is meant to replace a cancelled one.
fn known(session: &mut Session<'_>, stage: i64, job: &NewJob, now: Timestamp) -> Result<Enqueued, Failure> {
    let (id, cancelled): (i64, bool) = session
        .connection
        .prepare_cached(
            "SELECT id, state = 6 AND substr(error, 1, length(?3)) <> ?3 AND substr(error, 1, length(?4)) <> ?4
             FROM jobs WHERE stage = ?1 AND key = ?2",
        )?
        .query_row(params![stage, job.key, MOVED_MARK, MOVING_MARK], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match cancelled {
        true if job.again => {
            forget(session.connection, id)?;
            session.count(stage, Kind::Jobs(State::Cancelled), -1);
            insert(session, job, now)
        }
        true => Ok(Enqueued::Cancelled(JobId::new(id.unsigned_abs()))),
        false => Ok(Enqueued::Duplicate(JobId::new(id.unsigned_abs()))),
    }
}

/// Deletes all that is kept of a job.
pub(super) fn forget(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM jobs WHERE id = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM data WHERE job = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM completions WHERE job = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM evidence WHERE job = ?1")?.execute([id])?;
    Ok(())
}

/// The state of a job that enters a stage.
pub(super) fn entry_state(
    session: &mut Session<'_>,
    stage: &Name,
    in_group: bool,
    due_at: Timestamp,
    now: Timestamp,
) -> Result<State, Failure> {
    let gated = session.stage(stage)?.is_some_and(|stage| !stage.after.is_empty());
    Ok(entering(in_group && gated, due_at, now))
}

/// Makes jobs ready that are due ([`JobCall::Due`]), many at once.
pub(super) fn make_due_ready(session: &mut Session<'_>, stage: i64, now: Timestamp) -> Result<(), Failure> {
    let due: Vec<(i64, bool)> = session
        .connection
        .prepare_cached(
            "SELECT id, state = 3 FROM jobs WHERE stage = ?1 AND state IN (1, 3) AND due_at <= ?2
             ORDER BY due_at LIMIT ?3",
        )?
        .query_map(params![stage, micros(now), BATCH_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut make_ready = session.connection.prepare_cached("UPDATE jobs SET state = 0 WHERE id = ?1")?;
    for (id, expired) in due {
        make_ready.execute([id])?;
        session.moved(stage, if expired { State::Running } else { State::Delayed }, State::Ready);
    }
    Ok(())
}

pub(super) fn peek(session: &mut Session<'_>, stage: &Name, now: Timestamp) -> Result<Peek, Failure> {
    let Some(stage) = session.stage(stage)? else { return Ok(Peek::default()) };
    let (id, paused) = (stage.id, stage.paused);
    make_due_ready(session, id, now)?;
    let cost: Option<String> = session
        .connection
        .prepare_cached(
            "SELECT cost FROM jobs WHERE stage = ?1 AND state = 0 ORDER BY priority DESC, id LIMIT 1",
        )?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let next_at: Option<i64> = session
        .connection
        .prepare_cached("SELECT min(due_at) FROM jobs WHERE stage = ?1 AND state IN (1, 3)")?
        .query_row([id], |row| row.get(0))?;
    Ok(Peek { cost: cost.map(JobCost::stored), next_at: next_at.map(time), paused, ready: None })
}

/// The best ready jobs of a stage: `?1` stage, `?2` how many, `?3` cost.
const READY: &str = "SELECT id FROM jobs WHERE stage = ?1 AND state = 0 ORDER BY priority DESC, id LIMIT ?2";
const READY_OF_COST: &str =
    "SELECT id FROM jobs WHERE stage = ?1 AND cost = ?3 AND state = 0 ORDER BY priority DESC, id LIMIT ?2";

pub(super) fn claim(
    session: &mut Session<'_>,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<Vec<Claimed>, Failure> {
    let Some(stage) = session.stage(&request.stage)?.filter(|stage| !stage.paused) else {
        return Ok(Vec::new());
    };
    let stage = stage.id;
    make_due_ready(session, stage, now)?;
    let connection = session.connection;
    let ids: Vec<i64> = match &request.cost {
        None => connection
            .prepare_cached(READY)?
            .query_map(params![stage, request.count], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?,
        Some(cost) => connection
            .prepare_cached(READY_OF_COST)?
            .query_map(params![stage, request.count, cost.as_str()], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?,
    };
    ids.into_iter().filter_map(|id| claim_one(session, stage, id, request, now).transpose()).collect()
}

/// Claims the best ready job of the first of these stages that has any, if it has the cost asked for. None if a job of these
/// stages is due: it may be a better one.
pub(super) fn claim_first(
    session: &mut Session<'_>,
    requests: &[ClaimRequest],
    now: Timestamp,
) -> Result<Option<Claimed>, Failure> {
    let connection = session.connection;
    let mut is_due = connection
        .prepare_cached("SELECT 1 FROM jobs WHERE stage = ?1 AND state IN (1, 3) AND due_at <= ?2 LIMIT 1")?;
    let mut best = connection.prepare_cached(
        "SELECT id, cost FROM jobs WHERE stage = ?1 AND state = 0 ORDER BY priority DESC, id LIMIT 1",
    )?;
    let mut found = None;
    for request in requests {
        let Some(stage) = session.stage(&request.stage)?.filter(|stage| !stage.paused) else { continue };
        let stage = stage.id;
        if is_due.exists(params![stage, micros(now)])? {
            return Ok(None);
        }
        if found.is_none() {
            let job =
                best.query_row([stage], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).optional()?;
            found = job.map(|(id, cost)| (stage, id, cost, request));
        }
    }
    match found {
        Some((stage, id, cost, request))
            if request.cost.as_ref().is_none_or(|asked| asked.as_str() == cost) =>
        {
            claim_one(session, stage, id, request, now)
        }
        _ => Ok(None),
    }
}

fn claim_one(
    session: &mut Session<'_>,
    stage: i64,
    id: i64,
    request: &ClaimRequest,
    now: Timestamp,
) -> Result<Option<Claimed>, Failure> {
    let connection = session.connection;
    let Some(ready) = StoredJob::find(connection, id)? else { return Ok(None) };
    apply_for(
        session,
        &ready,
        JobCall::Claim { visibility: request.visibility },
        Some(&request.worker),
        now,
    )?;
    session.count(stage, Kind::Claimed, 1);
    let select = format!("{SELECT_JOBS} WHERE jobs.id = ?1");
    let job = connection.prepare_cached(&select)?.query_row([id], job)?;
    let claim = Claim { job: job.id, stage: job.stage.clone(), number: job.claim_number };
    let expires_at = job.due_at;
    Ok(Some(Claimed { claim, job, expires_at }))
}

/// The fence: the claim's job, if the claim is the newest and has not ended. No other writer can change it before the
/// transaction ends.
pub(super) fn fenced(session: &mut Session<'_>, claim: &Claim) -> Result<Option<StoredJob>, Failure> {
    let Some(stage) = session.stage(&claim.stage)?.map(|stage| stage.id) else { return Ok(None) };
    let found = session
        .connection
        .prepare_cached(select_stored!("id = ?1 AND stage = ?2 AND claim_number = ?3 AND open = 1"))?
        .query_row(params![stored(claim.job.get()), stage, stored(claim.number)], StoredJob::read)
        .optional()?;
    Ok(found)
}

/// Applies a call of a worker to each of its claims. Which of them are open.
fn apply_to_each(
    session: &mut Session<'_>,
    claims: &[Claim],
    call: JobCall<'_>,
    now: Timestamp,
) -> Result<Vec<bool>, Failure> {
    let mut one = |claim| match fenced(session, claim)? {
        Some(job) => apply(session, &job, call, now),
        None => Ok(false),
    };
    claims.iter().map(&mut one).collect()
}

pub(super) fn renew(
    session: &mut Session<'_>,
    claims: &[Claim],
    visibility: Span,
    now: Timestamp,
) -> Result<Vec<bool>, Failure> {
    apply_to_each(session, claims, JobCall::Renew { visibility }, now)
}

pub(super) fn release(
    session: &mut Session<'_>,
    claims: &[Claim],
    now: Timestamp,
) -> Result<Vec<bool>, Failure> {
    apply_to_each(session, claims, JobCall::Release, now)
}

/// [`JobCall::Abandon`], for many at once.
pub(super) fn abandon(
    session: &mut Session<'_>,
    worker: Option<&str>,
    now: Timestamp,
) -> Result<u64, Failure> {
    let stages: Vec<i64> = session.stages()?.iter().map(|stage| stage.id).collect();
    let mut abandon = session.connection.prepare_cached(
        "UPDATE jobs SET due_at = ?2 WHERE stage = ?1 AND state IN (1, 3) AND state = 3 AND due_at > ?2
         AND (?3 IS NULL OR worker = ?3)",
    )?;
    let mut abandoned = 0;
    for stage in stages {
        abandoned += abandon.execute(params![stage, micros(now), worker])? as u64;
    }
    session.woke |= abandoned > 0;
    Ok(abandoned)
}
