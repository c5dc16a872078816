//! Attempts that did not finish their job.

use rusqlite::{Connection, params};
use tollway_core::Timestamp;

use super::error::Failure;
use super::rows::{micros, stored, time};
use super::session::Session;
use crate::bounds::EVIDENCE_MAX;
use crate::engine::counters::Kind;
use crate::{Attempt, Cause, Evidence, JobId};

/// Keeps the evidence of an attempt under the newest claim of its job, and counts it for the stage.
pub(super) fn record(
    session: &mut Session<'_>,
    stage: i64,
    job: i64,
    attempt: &Attempt,
    now: Timestamp,
) -> Result<(), Failure> {
    let connection = session.connection;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO evidence (job, claim_number, worker, started_at, ended_at, cause, error, detail)
             SELECT id, claim_number, worker, changed_at, ?2, ?3, ?4, ?5 FROM jobs WHERE id = ?1",
        )?
        .execute(params![job, micros(now), attempt.cause().as_str(), attempt.error(), attempt.details()])?;
    connection
        .prepare_cached("UPDATE jobs SET error = ?2 WHERE id = ?1")?
        .execute(params![job, attempt.error()])?;
    // Refusals for the rate go first: there may be many, and they say nothing about the job.
    connection
        .prepare_cached(
            "DELETE FROM evidence WHERE job = ?1 AND claim_number NOT IN (
                 SELECT claim_number FROM evidence WHERE job = ?1
                 ORDER BY cause = 'rate_limited', claim_number DESC LIMIT ?2)",
        )?
        .execute(params![job, EVIDENCE_MAX])?;
    session.count(stage, Kind::Attempts(attempt.cause()), 1);
    Ok(())
}

/// The evidence of a job, the oldest first.
pub(super) fn list(connection: &Connection, job: JobId) -> Result<Vec<Evidence>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT claim_number, worker, started_at, ended_at, cause, error, detail FROM evidence
         WHERE job = ?1 ORDER BY claim_number",
    )?;
    let rows = statement.query_map([stored(job.get())], |row| {
        let cause = Cause::stored(row.get_ref(4)?.as_str()?);
        let attempt = Attempt::new(cause, row.get_ref(5)?.as_str()?).detail(row.get_ref(6)?.as_str()?);
        Ok(Evidence {
            number: row.get(0)?,
            worker: row.get(1)?,
            started_at: time(row.get(2)?),
            ended_at: time(row.get(3)?),
            attempt,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
