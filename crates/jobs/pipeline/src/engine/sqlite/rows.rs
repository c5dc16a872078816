//! Between rows and values.

use rusqlite::Row;
use rusqlite::types::Value;

pub(super) use crate::engine::stored::{micros, name, stored, time};
use crate::{EngineError, Filter, Job, JobCost, JobId, State};

/// Jobs with their stage and data, in the order of [`job`].
pub(super) const SELECT_JOBS: &str = "
    SELECT jobs.id, stages.name, jobs.key, jobs.\"group\", data.data, jobs.priority, jobs.cost, jobs.state, jobs.due_at,
           jobs.claim_number, jobs.worker, jobs.failures, jobs.crashes, jobs.rate_limited, jobs.error, jobs.created_at,
           jobs.changed_at
    FROM jobs JOIN stages ON stages.id = jobs.stage JOIN data ON data.job = jobs.id";

/// A row of [`SELECT_JOBS`].
pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let state: i64 = row.get(7)?;
    Ok(Job {
        id: JobId::new(row.get(0)?),
        stage: name(row.get_ref(1)?.as_str()?).map_err(|error| unreadable(1, &error))?,
        key: row.get(2)?,
        group: row.get(3)?,
        data: row.get(4)?,
        priority: row.get(5)?,
        cost: JobCost::stored(row.get(6)?),
        state: State::of_number(state).ok_or(rusqlite::Error::IntegralValueOutOfRange(7, state))?,
        due_at: time(row.get(8)?),
        claim_number: row.get(9)?,
        worker: row.get(10)?,
        failures: row.get(11)?,
        crashes: row.get(12)?,
        rate_limited: row.get(13)?,
        error: row.get(14)?,
        created_at: time(row.get(15)?),
        changed_at: time(row.get(16)?),
    })
}

fn unreadable(column: usize, error: &EngineError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        rusqlite::types::Type::Text,
        error.message.clone().into(),
    )
}

/// A filter as conditions on `jobs`, and their parameters from `?1`.
///
/// The state is written as a literal: SQLite uses a partial index only then.
pub(super) fn conditions(filter: &Filter, after: Option<JobId>) -> (String, Vec<Value>) {
    let mut conditions = "jobs.id > ?1".to_owned();
    let mut parameters = vec![Value::Integer(after.map_or(0, |id| stored(id.get())))];
    let mut and = |condition: &str, parameter: Value| {
        parameters.push(parameter);
        conditions.push_str(&format!(" AND {}", condition.replace('?', &format!("?{}", parameters.len()))));
    };
    if let Some(job) = filter.job {
        and("jobs.id = ?", Value::Integer(stored(job.get())));
    }
    if let Some(stage) = &filter.stage {
        // The `+` keeps the indexes of stages out of it: they are not in the order of ids, so that every step through a
        // backlog would sort all the rest of it.
        and("+jobs.stage = (SELECT id FROM stages WHERE name = ?)", Value::Text(stage.as_str().to_owned()));
    }
    if let Some(group) = &filter.group {
        and("jobs.\"group\" = ?", Value::Text(group.clone()));
    }
    if let Some(key) = &filter.key {
        // Names every stage, because the index of keys begins with it.
        and("jobs.stage IN (SELECT id FROM stages) AND jobs.key = ?", Value::Text(key.clone()));
    }
    if let Some(error) = &filter.error {
        and("instr(lower(jobs.error), lower(?)) > 0", Value::Text(error.clone()));
    }
    if let Some(state) = filter.state {
        conditions.push_str(&format!(" AND jobs.state = {}", state.number()));
    }
    (conditions, parameters)
}
