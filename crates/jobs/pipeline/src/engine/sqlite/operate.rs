//! What operators change: jobs, stages, and what is forgotten.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};
use tollway_core::{Name, Timestamp};

use super::error::Failure;
use super::rows::{conditions, micros, stored};
use super::session::Session;
use super::transitions::{StoredJob, apply, select_stored};
use super::work::forget;
use crate::engine::counters::Kind;
use crate::engine::stored::states_of;
use crate::job::transition::JobCall;
use crate::{Change, Changed, Edit, Edited, EngineError, Filter, JobId, StageChange, State};

pub(super) fn edit(
    session: &mut Session<'_>,
    job: JobId,
    edit: &Edit,
    now: Timestamp,
) -> Result<Edited, Failure> {
    let connection = session.connection;
    let id = stored(job.get());
    let Some(found) = StoredJob::find(connection, id)? else { return Ok(Edited::Missing) };
    if !apply(session, &found, JobCall::Edit { priority: edit.priority }, now)? {
        return Ok(Edited::Refused(found.life.state));
    }
    if let Some(cost) = &edit.cost {
        connection
            .prepare_cached("UPDATE jobs SET cost = ?2 WHERE id = ?1")?
            .execute(params![id, cost.as_str()])?;
    }
    if let Some(data) = &edit.data {
        connection.prepare_cached("UPDATE data SET data = ?2 WHERE job = ?1")?.execute(params![id, data])?;
    }
    Ok(Edited::Changed)
}

pub(super) fn change(
    session: &mut Session<'_>,
    filter: &Filter,
    change: Change,
    after: Option<JobId>,
    limit: usize,
    now: Timestamp,
) -> Result<Changed, Failure> {
    let (conditions, mut parameters) = conditions(filter, after);
    parameters.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
    let applies = states_of(change);
    let select =
        format!("{}{applies} AND {conditions} ORDER BY id LIMIT ?{}", select_stored!(""), parameters.len());
    let found = StoredJob::find_all(session.connection, &select, params_from_iter(parameters))?;
    for job in &found {
        apply(session, job, JobCall::Change(change), now)?;
    }
    let last = found.last().filter(|_| found.len() == limit);
    Ok(Changed { jobs: found.len() as u64, next: last.map(|job| JobId::new(job.id.unsigned_abs())) })
}

pub(super) fn set_stage(
    session: &mut Session<'_>,
    stage: &Name,
    change: &StageChange,
    now: Timestamp,
) -> Result<(), Failure> {
    let id = session.stage_id(stage)?;
    let set = |sql: &str, value: Value| -> rusqlite::Result<()> {
        session.connection.prepare_cached(sql)?.execute(params![id, value]).map(drop)
    };
    if let Some(paused) = change.paused {
        set("UPDATE stages SET paused = ?2 WHERE id = ?1", paused.into())?;
    }
    if let Some(concurrency) = change.concurrency {
        let value = concurrency.map_or(Value::Null, Value::from);
        set("UPDATE stages SET concurrency = ?2 WHERE id = ?1", value)?;
    }
    if let Some(after) = &change.after {
        if after.contains(stage) {
            let message = format!("stage {} cannot wait for itself", stage.as_str());
            return Err(EngineError::caller(message).into());
        }
        let ids = after.iter().map(|stage| session.stage_id(stage)).collect::<Result<Vec<i64>, _>>()?;
        let text = serde_json::to_string(&ids).map_err(|error| EngineError::caller(error.to_string()))?;
        session
            .connection
            .prepare_cached("UPDATE stages SET after = ?2 WHERE id = ?1")?
            .execute(params![id, text])?;
        release_held(session, id, &ids, now)?;
    }
    session.stages_changed();
    session.woke = true;
    Ok(())
}

/// Looks at every group with held jobs again: fewer stages may hold them now.
fn release_held(session: &mut Session<'_>, stage: i64, after: &[i64], now: Timestamp) -> Result<(), Failure> {
    let groups: Vec<String> = session
        .connection
        .prepare_cached(
            "SELECT DISTINCT \"group\" FROM jobs WHERE stage = ?1 AND state = 2 AND \"group\" IS NOT NULL",
        )?
        .query_map([stage], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for group in &groups {
        if !session.is_in_any(group, after)? {
            session.release_group(group, stage, now)?;
        }
    }
    Ok(())
}

pub(super) fn purge(
    session: &mut Session<'_>,
    stage: &Name,
    before: Timestamp,
    limit: usize,
) -> Result<u64, Failure> {
    let Some(stage) = session.stage(stage)?.map(|stage| stage.id) else { return Ok(0) };
    let connection = session.connection;
    let old: Vec<(i64, bool)> = connection
        .prepare_cached(
            "SELECT id, state = 5 FROM jobs WHERE stage = ?1 AND state >= 5 AND changed_at < ?2
             ORDER BY changed_at LIMIT ?3",
        )?
        .query_map(params![stage, micros(before), limit], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (id, done) in &old {
        forget(connection, *id)?;
        session.count(stage, Kind::Jobs(if *done { State::Done } else { State::Cancelled }), -1);
    }
    Ok(old.len() as u64)
}
