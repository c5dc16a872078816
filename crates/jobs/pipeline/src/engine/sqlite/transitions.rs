//! Applies the rules of [`transition`] to a row.

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use tollway_core::Timestamp;

use super::error::Failure;
use super::evidence;
use super::rows::{micros, time};
use super::session::Session;
use crate::State;
use crate::job::transition::{JobCall, Lifecycle, transition};

/// A job as far as calls look at it.
pub(super) struct StoredJob {
    pub(super) id: i64,
    pub(super) stage: i64,
    pub(super) life: Lifecycle,
    pub(super) key: String,
    pub(super) group: Option<String>,
}

/// What a [`StoredJob`] is read from.
macro_rules! select_stored {
    ($condition:literal) => {
        concat!(
            "SELECT id, stage, state, open, claim_number, due_at, changed_at, failures, crashes, rate_limited, priority, key,
                    \"group\" FROM jobs WHERE ",
            $condition
        )
    };
}
pub(super) use select_stored;

impl StoredJob {
    /// A row of `select_stored`.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let life = Lifecycle {
            state: State::of_number(row.get(2)?).unwrap_or(State::Ready),
            open: row.get(3)?,
            claim_number: row.get(4)?,
            due_at: time(row.get(5)?),
            changed_at: time(row.get(6)?),
            failures: row.get(7)?,
            crashes: row.get(8)?,
            rate_limited: row.get(9)?,
            priority: row.get(10)?,
        };
        Ok(Self { id: row.get(0)?, stage: row.get(1)?, life, key: row.get(11)?, group: row.get(12)? })
    }

    /// The job of this number.
    pub(super) fn find(connection: &Connection, id: i64) -> rusqlite::Result<Option<Self>> {
        connection.prepare_cached(select_stored!("id = ?1"))?.query_row([id], Self::read).optional()
    }

    /// The jobs that a statement of `select_stored` finds.
    pub(super) fn find_all(
        connection: &Connection,
        select: &str,
        parameters: impl Params,
    ) -> rusqlite::Result<Vec<Self>> {
        connection.prepare_cached(select)?.query_map(parameters, Self::read)?.collect()
    }
}

/// Applies a call to a job. False: it does not apply.
pub(super) fn apply(
    session: &mut Session<'_>,
    job: &StoredJob,
    call: JobCall<'_>,
    now: Timestamp,
) -> Result<bool, Failure> {
    apply_for(session, job, call, None, now)
}

/// The same for a worker that claims the job.
pub(super) fn apply_for(
    session: &mut Session<'_>,
    job: &StoredJob,
    call: JobCall<'_>,
    worker: Option<&str>,
    now: Timestamp,
) -> Result<bool, Failure> {
    let Some(transition) = transition(&job.life, call, now) else { return Ok(false) };
    if let Some(attempt) = &transition.attempt {
        evidence::record(session, job.stage, job.id, attempt, now)?;
    }
    let after = transition.after;
    session
        .connection
        .prepare_cached(
            "UPDATE jobs SET state = ?2, open = ?3, claim_number = ?4, due_at = ?5, changed_at = ?6, failures = ?7,
                    crashes = ?8, rate_limited = ?9, priority = ?10, worker = coalesce(?11, worker) WHERE id = ?1",
        )?
        .execute(params![
            job.id,
            after.state.number(),
            after.open,
            after.claim_number,
            micros(after.due_at),
            micros(after.changed_at),
            after.failures,
            after.crashes,
            after.rate_limited,
            after.priority,
            worker
        ])?;
    session.moved(job.stage, job.life.state, after.state);
    if let Some(group) = job.group.as_ref().filter(|_| transition.moves_group) {
        session.group_moved(group, now);
    }
    Ok(true)
}
