//! Jobs that move to another stage. They keep their numbers.

use rusqlite::params;
use tollway_core::{Name, Timestamp};

use super::error::Failure;
use super::rows::{micros, stored};
use super::session::Session;
use super::transitions::{StoredJob, select_stored};
use super::work::make_due_ready;
use crate::engine::counters::Kind;
use crate::job::transition::{JobCall, Lifecycle, Transition, transition};
use crate::{JobId, StageMove, State};

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
    let waiting = select_stored!("+stage = ?1 AND state IN (0, 1, 2, 4) AND id > ?2 ORDER BY id LIMIT ?3");
    let after = after.map_or(0, |id| stored(id.get()));
    let found = StoredJob::find_all(session.connection, waiting, params![source, after, limit])?;
    let gated = session.stage(to)?.is_some_and(|stage| !stage.after.is_empty());
    let mut moved = StageMove::default();
    for job in &found {
        let held = gated && job.group.is_some();
        let Some(Transition { after, .. }) = transition(&job.life, JobCall::Move { held }, now) else {
            continue;
        };
        if !place(session, job.id, target, &after)? {
            moved.known.push(job.key.clone());
            continue;
        }
        moved.jobs += 1;
        session.count(source, Kind::Jobs(job.life.state), -1);
        session.count(target, Kind::Jobs(after.state), 1);
        session.count(target, Kind::Enqueued, 1);
        session.woke |= after.state == State::Ready;
        if let Some(group) = &job.group {
            session.group_moved(group, now);
        }
    }
    moved.next = found.last().filter(|_| found.len() == limit).map(|job| JobId::new(job.id.unsigned_abs()));
    Ok(moved)
}

/// Puts a job into its new stage. False: the stage knows its key.
fn place(session: &Session<'_>, job: i64, target: i64, after: &Lifecycle) -> rusqlite::Result<bool> {
    let placed = session
        .connection
        .prepare_cached(
            "UPDATE OR IGNORE jobs SET stage = ?2, state = ?3, open = 0, changed_at = ?4, due_at = ?5 WHERE id = ?1",
        )?
        .execute(params![job, target, after.state.number(), micros(after.changed_at), micros(after.due_at)])?;
    Ok(placed == 1)
}
