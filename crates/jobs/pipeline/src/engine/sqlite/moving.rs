//! Jobs that leave for another engine, and jobs that come from one.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};
use tollway_core::Timestamp;

use super::error::Failure;
use super::rows::{SELECT_JOBS, conditions, job, micros, stored};
use super::session::Session;
use super::transitions::{StoredJob, apply};
use super::work::{insert, is_held};
use crate::bounds::BATCH_BYTES_MAX;
use crate::engine::counters::Kind;
use crate::engine::moving::{MOVED_MARK, MOVING_MARK, MovedJob, moved_mark, moving_mark};
use crate::job::transition::JobCall;
use crate::{Enqueued, Filter, Job, JobId, NewJob, Page};

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
    if let Some(found) = StoredJob::find(connection, id)? {
        let held = is_held(session, &job.stage, job.group.is_some())?;
        apply(session, &found, JobCall::Import { from: &job, held }, now)?;
    }
    connection.prepare_cached("UPDATE jobs SET error = ?2 WHERE id = ?1")?.execute(params![id, job.error])?;
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
    Ok(enqueued)
}

/// Puts a job that had moved away in the place where it was. False: this job had not.
fn bring_back(session: &mut Session<'_>, job: &NewJob, id: JobId, now: Timestamp) -> Result<bool, Failure> {
    let (stage, id, connection) = (session.stage_id(&job.stage)?, stored(id.get()), session.connection);
    let changed = connection
        .prepare_cached(
            "UPDATE jobs SET created_at = ?2, cost = ?3, \"group\" = ?4, worker = ''
             WHERE id = ?1 AND state = 6 AND substr(error, 1, length(?5)) = ?5",
        )?
        .execute(params![id, micros(now), job.cost.as_str(), job.group, MOVED_MARK])?;
    if changed == 0 {
        return Ok(false);
    }
    connection.prepare_cached("UPDATE data SET data = ?2 WHERE job = ?1")?.execute(params![id, job.data])?;
    connection.prepare_cached("DELETE FROM evidence WHERE job = ?1")?.execute([id])?;
    session.count(stage, Kind::Enqueued, 1);
    Ok(true)
}
