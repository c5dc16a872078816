//! Jobs that move to another stage. They keep their numbers.

use std::collections::HashSet;

use futures_util::future::try_join;
use tokio_postgres::error::SqlState;
use tollway_core::{Name, Timestamp};

use super::error::Failure;
use super::rows::limit;
use super::session::{Session, moved};
use super::transitions::{self, Changed, LOCKED, SELECT_LOCKED};
use crate::engine::stored::stored;
use crate::job::transition::JobCall;
use crate::{JobId, StageMove};

const FOUND: &str = r#"
    SELECT id, "group" FROM jobs WHERE stage + 0 = $1 AND state IN (0, 1, 2, 4) AND id > $2 ORDER BY id LIMIT $3"#;

/// Keys that the new stage knows already.
const KNOWN: &str = "SELECT key FROM jobs WHERE stage = $1 AND key = ANY ($2)";

pub(super) async fn move_to_stage(
    session: &Session,
    from: Name,
    to: Name,
    after: Option<JobId>,
    most: usize,
    now: Timestamp,
) -> Result<StageMove, Failure> {
    let Some(source) = session.stage(&from).await? else { return Ok(StageMove::default()) };
    let target = session.stage_id(&to).await?;
    let after = after.map_or(0, |id| stored(id.get()));
    let rows = session.client().query(FOUND, &[&source, &after, &limit(most)]).await?;
    let ids = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    let groups = rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<Option<&str>>, _>>()?;
    let (groups, times) = moved(groups.into_iter().flatten().map(|group| (group, now)));
    let lock = format!(
        "{SELECT_LOCKED} id = ANY ($1::bigint[]) AND stage + 0 = $2 AND state IN (0, 1, 2, 4) {LOCKED}"
    );
    let (lock, write) =
        try_join(async { Ok(session.client().prepare(&lock).await?) }, transitions::prepare(session)).await?;
    let locked = transitions::lock(session, &groups, &lock, &[&ids, &source]).await?;
    let keys: Vec<&str> = locked.iter().map(|job| job.key.as_str()).collect();
    let rows = session.client().query(KNOWN, &[&target, &keys]).await?;
    let taken = rows.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<String>, _>>()?;
    let holds = transitions::stages_that_hold(session).await?.contains(&target);
    let (known, free): (Vec<_>, Vec<_>) = locked.into_iter().partition(|job| taken.contains(&job.key));
    let moving: Vec<Changed> = free
        .into_iter()
        .filter_map(|job| {
            let held = holds && job.group.is_some();
            Some(Changed { to: target, ..job.after(JobCall::Move { held }, now)? })
        })
        .collect();
    // A job with one of the keys came meanwhile: the next try sees it.
    transitions::write(session, &write, &moving).await.map_err(|error| match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => Failure::outrun(),
        _ => error.into(),
    })?;
    session.release_and_commit(&groups, &times).await?;
    let last = ids.last().filter(|_| ids.len() == most);
    Ok(StageMove {
        jobs: moving.len() as u64,
        known: known.into_iter().map(|job| job.key).collect(),
        next: last.map(|id| JobId::new(id.unsigned_abs())),
    })
}
