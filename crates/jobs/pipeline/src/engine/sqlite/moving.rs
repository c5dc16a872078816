//! Jobs that leave for another engine, and jobs that come from one.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};
use tollway_core::Timestamp;

use super::error::Failure;
use super::rows::{SELECT_JOBS, conditions, job, micros, stored};
use super::session::Session;
use super::transitions::{StoredJob, apply};
use super::work::{entry_state, insert};
use crate::bounds::BATCH_BYTES_MAX;
use crate::engine::counters::Kind;
use crate::engine::moving::{MOVED_MARK, MOVING_MARK, MovedJob, moved_mark, moving_mark};
use crate::job::transition::JobCall;
use crate::{Enqueued, Filter, Job, JobId, NewJob, Page, State};

pub(super) fn withdraw(
    session: &mut Session<'_>,
    filter: &Filter,
    to: &str,
    after: Option<JobId>,
    limit: usize,
    now: Timestamp,
) -> Result<Page<Job>, Failure> {
    let (conditions, mut parameters) = conditions(filter, after);
    parameters.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
    let select = format!(
        "{SELECT_JOBS} WHERE {conditions} AND jobs.state IN (0, 1, 2, 4) ORDER BY jobs.id LIMIT ?{}",
        parameters.len()
    );
    let (mut items, mut bytes): (Vec<Job>, usize) = (Vec::new(), 0);
    {
        let mut statement = session.connection.prepare_cached(&select)?;
        let mut rows = statement.query(params_from_iter(parameters))?;
        while bytes < BATCH_BYTES_MAX
            && let Some(row) = rows.next()?
        {
            items.push(job(row)?);
            bytes += items.last().map_or(0, |job| job.data.len());
        }
    }
    for job in &items {
        let id = stored(job.id.get());
        if let Some(found) = StoredJob::find(session.connection, id)? {
            apply(session, &found, JobCall::Withdraw, now)?;
        }
        session
            .connection
            .prepare_cached("UPDATE jobs SET error = ?2 WHERE id = ?1")?
            .execute(params![id, moving_mark(to, job.state)])?;
    }
    let full = items.len() == limit || bytes >= BATCH_BYTES_MAX;
    let next = items.last().filter(|_| full).map(|job| job.id);
    Ok(Page { items, next })
}

pub(super) fn confirm(session: &mut Session<'_>, jobs: &[JobId], to: &str) -> Result<u64, Failure> {
    let mut confirm = session.connection.prepare_cached(
        "UPDATE jobs SET error = ?2 WHERE id = ?1 AND state = 6 AND substr(error, 1, length(?3)) = ?3",
    )?;
    let mark = moved_mark(to);
    let mut confirmed = 0;
    for job in jobs {
        confirmed += confirm.execute(params![stored(job.get()), mark, MOVING_MARK])? as u64;
    }
    Ok(confirmed)
}

pub(super) fn import(
    session: &mut Session<'_>,
    jobs: Vec<MovedJob>,
    now: Timestamp,
) -> Result<Vec<Enqueued>, Failure> {
    jobs.into_iter().map(|moved| import_one(session, moved, now)).collect()
}

fn import_one(session: &mut Session<'_>, moved: MovedJob, now: Timestamp) -> Result<Enqueued, Failure> {
    let MovedJob { job, evidence } = moved;
    let new = NewJob::of_moved(&job);
    let id = match insert(session, &new, now)? {
        Enqueued::New(id) => id,
        Enqueued::Duplicate(id) | Enqueued::Cancelled(id) => match bring_back(session, &new, id, now)? {
            true => id,
            false => return Ok(Enqueued::Duplicate(id)),
        },
    };
    let enqueued = Enqueued::New(id);
    let (id, connection) = (stored(id.get()), session.connection);
    connection
        .prepare_cached(
            "UPDATE jobs SET claim_number = max(claim_number, ?2), failures = ?3, crashes = ?4, rate_limited = ?5, error = ?6 WHERE id = ?1",
        )?
        .execute(params![
            id,
            stored(job.claim_number),
            job.failures,
            job.crashes,
            job.rate_limited,
            job.error
        ])?;
    for one in evidence {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO evidence (job, claim_number, worker, started_at, ended_at, cause, error, detail)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                id,
                stored(one.number),
                one.worker,
                micros(one.started_at),
                micros(one.ended_at),
                one.attempt.cause().as_str(),
                one.attempt.error(),
                one.attempt.details()
            ])?;
    }
    if job.state == State::Dead {
        bury(session, &job, id)?;
    }
    Ok(enqueued)
}

/// Enqueues a job that had moved away again. False: this job had not.
fn bring_back(session: &mut Session<'_>, job: &NewJob, id: JobId, now: Timestamp) -> Result<bool, Failure> {
    let (stage, id, connection) = (session.stage_id(&job.stage)?, stored(id.get()), session.connection);
    let state = entry_state(session, &job.stage, job.group.is_some(), job.not_before, now)?;
    let changed = connection
        .prepare_cached(
            "UPDATE jobs SET state = ?2, priority = ?3, due_at = ?4, created_at = ?5, changed_at = ?5, cost = ?6,
                    \"group\" = ?7, worker = '', error = ''
             WHERE id = ?1 AND state = 6 AND substr(error, 1, length(?8)) = ?8",
        )?
        .execute(params![
            id,
            state.number(),
            job.priority,
            micros(job.not_before),
            micros(now),
            job.cost.as_str(),
            job.group,
            MOVED_MARK
        ])?;
    if changed == 0 {
        return Ok(false);
    }
    connection.prepare_cached("UPDATE data SET data = ?2 WHERE job = ?1")?.execute(params![id, job.data])?;
    connection.prepare_cached("DELETE FROM evidence WHERE job = ?1")?.execute([id])?;
    session.moved(stage, State::Cancelled, state);
    session.count(stage, Kind::Enqueued, 1);
    if let Some(group) = &job.group {
        session.group_moved(group, now);
    }
    Ok(true)
}

/// Makes a job that was just inserted a dead letter, before its group is looked at.
fn bury(session: &mut Session<'_>, job: &Job, id: i64) -> Result<(), Failure> {
    let stage = session.stage_id(&job.stage)?;
    let state: i64 = session
        .connection
        .prepare_cached("SELECT state FROM jobs WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    session.connection.prepare_cached("UPDATE jobs SET state = 4 WHERE id = ?1")?.execute([id])?;
    session.moved(stage, State::of_number(state).unwrap_or(State::Ready), State::Dead);
    Ok(())
}
