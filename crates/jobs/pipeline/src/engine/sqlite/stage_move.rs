//! Jobs that move to another stage. They keep their numbers.

use rusqlite::params;
use tollway_core::{Name, Timestamp};

use super::error::Failure;
use super::rows::{micros, stored, time};
use super::session::Session;
use super::work::{entry_state, make_due_ready};
use crate::engine::counters::Kind;
use crate::{JobId, StageMove, State};

/// A job on its way.
struct Moving {
    id: i64,
    state: State,
    due_at: Timestamp,
    key: String,
    group: Option<String>,
}

impl Moving {
    /// Of a job that does not wait for a time, `due_at` is left over from its last claim.
    fn delayed_until(&self) -> Timestamp {
        match self.state {
            State::Delayed | State::Held => self.due_at,
            _ => Timestamp::EPOCH,
        }
    }
}

pub(super) fn move_to_stage(
    session: &mut Session<'_>,
    from: &Name,
    to: &Name,
    after: Option<JobId>,
    limit: usize,
    now: Timestamp,
) -> Result<StageMove, Failure> {
    let Some(source) = session.stage(from)?.map(|stage| stage.id) else { return Ok(StageMove::default()) };
    let target = session.stage_id(to)?;
    make_due_ready(session, source, now)?;
    let found = waiting_jobs(session, source, after, limit)?;
    let mut moved = StageMove::default();
    for job in &found {
        let state = match job.state {
            State::Dead => State::Dead,
            _ => entry_state(session, to, job.group.is_some(), job.delayed_until(), now)?,
        };
        if !place(session, job, target, state, now)? {
            moved.known.push(job.key.clone());
            continue;
        }
        moved.jobs += 1;
        session.count(source, Kind::Jobs(job.state), -1);
        session.count(target, Kind::Jobs(state), 1);
        session.count(target, Kind::Enqueued, 1);
        session.woke |= state == State::Ready;
        if let Some(group) = &job.group {
            session.group_moved(group, now);
        }
    }
    moved.next = found.last().filter(|_| found.len() == limit).map(|job| JobId::new(job.id.unsigned_abs()));
    Ok(moved)
}

/// Ready, delayed, held and dead jobs.
fn waiting_jobs(
    session: &Session<'_>,
    stage: i64,
    after: Option<JobId>,
    limit: usize,
) -> Result<Vec<Moving>, Failure> {
    let after = after.map_or(0, |id| stored(id.get()));
    let found = session
        .connection
        .prepare_cached(
            "SELECT id, state, due_at, key, \"group\" FROM jobs
             WHERE +stage = ?1 AND state IN (0, 1, 2, 4) AND id > ?2 ORDER BY id LIMIT ?3",
        )?
        .query_map(params![stage, after, limit], |row| {
            Ok(Moving {
                id: row.get(0)?,
                state: State::of_number(row.get(1)?).unwrap_or(State::Ready),
                due_at: time(row.get(2)?),
                key: row.get(3)?,
                group: row.get(4)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(found)
}

/// Puts a job into its new stage, and ends a claim that expired. False: the stage knows its key.
fn place(
    session: &Session<'_>,
    job: &Moving,
    target: i64,
    state: State,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let placed = session
        .connection
        .prepare_cached(
            "UPDATE OR IGNORE jobs SET stage = ?2, state = ?3, open = 0, changed_at = ?4, due_at = ?5 WHERE id = ?1",
        )?
        .execute(params![job.id, target, state.number(), micros(now), micros(job.delayed_until())])?;
    Ok(placed == 1)
}
