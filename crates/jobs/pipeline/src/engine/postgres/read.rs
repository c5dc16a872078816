//! What operators see. Runs on a connection that cannot write.

use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tollway_core::Name;

use super::error::Failure;
use super::rows::{Conditions, SELECT_JOBS, job, limit};
use super::session::Session;
use crate::bounds::BATCH_BYTES_MAX;
use crate::engine::counters;
use crate::engine::stored::{name, stored, time};
use crate::{Attempt, Cause, Evidence, Filter, Job, JobId, JobResult, Page, StageCounts, StageSettings};

pub(super) async fn counts(session: &Session) -> Result<Vec<StageCounts>, Failure> {
    let select =
        "SELECT name, kind, sum(n)::bigint FROM stages LEFT JOIN counters ON counters.stage = stages.id
        GROUP BY stages.id, kind ORDER BY stages.id, kind";
    collect_counts(&session.client().query(select, &[]).await?)
}

pub(super) async fn group_counts(session: &Session, group: String) -> Result<Vec<StageCounts>, Failure> {
    let select =
        "SELECT name, state, count(*) FROM jobs JOIN stages ON stages.id = jobs.stage WHERE \"group\" = $1
        GROUP BY stages.id, state ORDER BY stages.id, state";
    collect_counts(&session.client().query(select, &[&group]).await?)
}

/// Rows of name, kind and number, in the order of stages.
fn collect_counts(rows: &[Row]) -> Result<Vec<StageCounts>, Failure> {
    let mut counts: Vec<StageCounts> = Vec::new();
    for row in rows {
        let stage = name(row.try_get(0)?)?;
        if counts.last().is_none_or(|last| last.stage != stage) {
            counts.push(StageCounts::empty(stage));
        }
        let (kind, n): (Option<i16>, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
        if let (Some(last), Some(kind), Some(n)) = (counts.last_mut(), kind, n) {
            counters::put(last, kind.into(), u64::try_from(n).unwrap_or(0));
        }
    }
    Ok(counts)
}

pub(super) async fn scan(
    session: &Session,
    filter: Filter,
    after: Option<JobId>,
    most: usize,
) -> Result<Page<Job>, Failure> {
    let mut conditions = Conditions::new(&filter, after);
    let place = conditions.push(limit(most));
    let select = format!("{SELECT_JOBS} WHERE {} ORDER BY jobs.id LIMIT {place}", conditions.text);
    let mut rows = pin!(session.client().query_raw(&select, conditions.parameters()).await?);
    let (mut items, mut bytes): (Vec<Job>, usize) = (Vec::new(), 0);
    while bytes < BATCH_BYTES_MAX
        && let Some(row) = rows.try_next().await?
    {
        items.push(job(&row, name(row.try_get(16)?)?)?);
        bytes += items.last().map_or(0, |job| job.data.len());
    }
    let full = items.len() == most || bytes >= BATCH_BYTES_MAX;
    let next = items.last().filter(|_| full).map(|job| job.id);
    Ok(Page { items, next })
}

pub(super) async fn matching(session: &Session, filter: Filter) -> Result<u64, Failure> {
    let conditions = Conditions::new(&filter, None);
    let select = format!("SELECT count(*) FROM jobs WHERE {}", conditions.text);
    let row = session.client().query_one(&select, &conditions.parameters()).await?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}

pub(super) async fn evidence(session: &Session, job: JobId) -> Result<Vec<Evidence>, Failure> {
    let select = "SELECT claim_number, worker, started_at, ended_at, cause, error, detail FROM evidence
        WHERE job = $1 ORDER BY claim_number";
    let rows = session.client().query(select, &[&stored(job.get())]).await?;
    let one = |row: &Row| -> Result<Evidence, Failure> {
        Ok(Evidence {
            number: row.try_get::<_, i64>(0)?.unsigned_abs(),
            worker: row.try_get(1)?,
            started_at: time(row.try_get(2)?),
            ended_at: time(row.try_get(3)?),
            attempt: Attempt::new(Cause::stored(row.try_get(4)?), row.try_get(5)?).detail(row.try_get(6)?),
        })
    };
    rows.iter().map(one).collect()
}

pub(super) async fn results(
    session: &Session,
    stage: Name,
    after: Option<JobId>,
    most: usize,
) -> Result<Page<JobResult>, Failure> {
    let select = "
        SELECT job, key, \"group\", completions.claim_number, finished_at, outputs, result
        FROM completions JOIN jobs ON jobs.id = job
        WHERE completions.stage = (SELECT id FROM stages WHERE name = $1) AND job > $2 ORDER BY job LIMIT $3";
    let after = after.map_or(0, |id| stored(id.get()));
    let (stage, most_rows) = (stage.as_str(), limit(most));
    let parameters: [&(dyn ToSql + Sync); 3] = [&stage, &after, &most_rows];
    let mut rows = pin!(session.client().query_raw(select, parameters).await?);
    let (mut items, mut bytes): (Vec<JobResult>, usize) = (Vec::new(), 0);
    while bytes < BATCH_BYTES_MAX
        && let Some(row) = rows.try_next().await?
    {
        let result: Option<String> = row.try_get(6)?;
        bytes += result.as_ref().map_or(0, String::len);
        items.push(JobResult {
            job: JobId::new(row.try_get::<_, i64>(0)?.unsigned_abs()),
            key: row.try_get(1)?,
            group: row.try_get(2)?,
            number: row.try_get::<_, i64>(3)?.unsigned_abs(),
            finished_at: time(row.try_get(4)?),
            outputs: u64::from(row.try_get::<_, i32>(5)?.unsigned_abs()),
            result,
        });
    }
    let full = items.len() == most || bytes >= BATCH_BYTES_MAX;
    let next = items.last().filter(|_| full).map(|result| result.job);
    Ok(Page { items, next })
}

pub(super) async fn stages(session: &Session) -> Result<Vec<StageSettings>, Failure> {
    let select = "
        SELECT name, paused, concurrency, ARRAY (
            SELECT before.name FROM unnest(stages.after) WITH ORDINALITY AS a (id, place)
            JOIN stages AS before ON before.id = a.id ORDER BY place)
        FROM stages ORDER BY id";
    let rows = session.client().query(select, &[]).await?;
    let one = |row: &Row| -> Result<StageSettings, Failure> {
        let after: Vec<String> = row.try_get(3)?;
        Ok(StageSettings {
            stage: name(row.try_get(0)?)?,
            paused: row.try_get(1)?,
            concurrency: row.try_get::<_, Option<i64>>(2)?.and_then(|most| u32::try_from(most).ok()),
            after: after.iter().map(|text| name(text)).collect::<Result<_, _>>()?,
        })
    };
    rows.iter().map(one).collect()
}
