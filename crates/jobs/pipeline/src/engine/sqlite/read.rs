//! What operators see. Runs on the connection that cannot write.

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use tollway_core::Name;

use super::error::Failure;
use super::rows::{SELECT_JOBS, conditions, job, name, stored, time};
use super::session::find_stage;
use crate::bounds::BATCH_BYTES_MAX;
use crate::engine::counters;
use crate::{Filter, Job, JobId, JobResult, Page, StageCounts, StageSettings};

pub(super) fn counts(connection: &Connection) -> Result<Vec<StageCounts>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT name, kind, n FROM stages LEFT JOIN counters ON counters.stage = stages.id ORDER BY stages.id, kind",
    )?;
    collect_counts(&mut statement.query([])?)
}

pub(super) fn group_counts(connection: &Connection, group: &str) -> Result<Vec<StageCounts>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT name, state, count(*) FROM jobs JOIN stages ON stages.id = jobs.stage WHERE \"group\" = ?1
         GROUP BY stages.id, state ORDER BY stages.id, state",
    )?;
    collect_counts(&mut statement.query([group])?)
}

/// Rows of name, kind and number, in the order of stages.
fn collect_counts(rows: &mut rusqlite::Rows<'_>) -> Result<Vec<StageCounts>, Failure> {
    let mut counts: Vec<StageCounts> = Vec::new();
    while let Some(row) = rows.next()? {
        let stage = name(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?;
        if counts.last().is_none_or(|last| last.stage != stage) {
            counts.push(StageCounts::empty(stage));
        }
        if let (Some(last), Some(kind)) = (counts.last_mut(), row.get(1)?) {
            counters::put(last, kind, row.get(2)?);
        }
    }
    Ok(counts)
}

pub(super) fn scan(
    connection: &Connection,
    filter: &Filter,
    after: Option<JobId>,
    limit: usize,
) -> Result<Page<Job>, Failure> {
    let (conditions, mut parameters) = conditions(filter, after);
    parameters.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
    let select = format!("{SELECT_JOBS} WHERE {conditions} ORDER BY jobs.id LIMIT ?{}", parameters.len());
    let mut statement = connection.prepare_cached(&select)?;
    let mut rows = statement.query(params_from_iter(parameters))?;
    let (mut items, mut bytes): (Vec<Job>, usize) = (Vec::new(), 0);
    while bytes < BATCH_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        items.push(job(row)?);
        bytes += items.last().map_or(0, |job| job.data.len());
    }
    let full = items.len() == limit || bytes >= BATCH_BYTES_MAX;
    let next = items.last().filter(|_| full).map(|job| job.id);
    Ok(Page { items, next })
}

pub(super) fn matching(connection: &Connection, filter: &Filter) -> Result<u64, Failure> {
    let (conditions, parameters) = conditions(filter, None);
    let select = format!("SELECT count(*) FROM jobs WHERE {conditions}");
    Ok(connection.prepare_cached(&select)?.query_row(params_from_iter(parameters), |row| row.get(0))?)
}

pub(super) fn results(
    connection: &Connection,
    stage: &Name,
    after: Option<JobId>,
    limit: usize,
) -> Result<Page<JobResult>, Failure> {
    let Some(stage) = find_stage(connection, stage)? else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    let mut statement = connection.prepare_cached(
        "SELECT job, key, \"group\", completions.claim_number, finished_at, outputs, result
         FROM completions JOIN jobs ON jobs.id = job
         WHERE job > ?1 AND completions.stage = ?2 ORDER BY job LIMIT ?3",
    )?;
    let after = after.map_or(0, |id| stored(id.get()));
    let mut rows = statement.query(params![after, stage, limit])?;
    let (mut items, mut bytes): (Vec<JobResult>, usize) = (Vec::new(), 0);
    while bytes < BATCH_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        let result: Option<String> = row.get(6)?;
        bytes += result.as_ref().map_or(0, String::len);
        items.push(JobResult {
            job: JobId::new(row.get(0)?),
            key: row.get(1)?,
            group: row.get(2)?,
            number: row.get(3)?,
            finished_at: time(row.get(4)?),
            outputs: row.get(5)?,
            result,
        });
    }
    let full = items.len() == limit || bytes >= BATCH_BYTES_MAX;
    let next = items.last().filter(|_| full).map(|result| result.job);
    Ok(Page { items, next })
}

pub(super) fn stages(connection: &Connection) -> Result<Vec<StageSettings>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT name, paused, concurrency,
                (SELECT json_group_array(before.name) FROM json_each(stages.after) JOIN stages AS before ON before.id = value)
         FROM stages ORDER BY id",
    )?;
    let mut rows = statement.query([])?;
    let mut stages = Vec::new();
    while let Some(row) = rows.next()? {
        let after: String = row.get(3)?;
        stages.push(StageSettings {
            stage: name(&row.get::<_, String>(0)?)?,
            paused: row.get(1)?,
            concurrency: row.get(2)?,
            after: serde_json::from_str(&after).unwrap_or_default(),
        });
    }
    Ok(stages)
}
