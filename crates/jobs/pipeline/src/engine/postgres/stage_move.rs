//! Jobs that move to another stage. They keep their numbers.

use futures_util::future::try_join;
use tokio_postgres::error::SqlState;
use tollway_core::{Name, Timestamp};

use super::error::Failure;
use super::rows::limit;
use super::session::{BEGIN, Session, moved};
use super::statements::counted;
use crate::engine::stored::{micros, stored};
use crate::{JobId, StageMove};

const FOUND: &str = r#"
    SELECT id, "group" FROM jobs WHERE stage + 0 = $1 AND state IN (0, 1, 2, 4) AND id > $2 ORDER BY id LIMIT $3"#;

/// Moves jobs that were found, if they still wait once they are locked. `due_at` is left over from the last claim, unless the
/// job waits for a time.
const MOVE: &str = concat!(
    r#"WITH locked AS MATERIALIZED (
        SELECT id, state, key, "group", CASE WHEN state IN (1, 2) THEN due_at ELSE 0 END AS due_at FROM jobs
        WHERE id = ANY ($1::bigint[]) AND stage + 0 = $2 AND state IN (0, 1, 2, 4) ORDER BY id FOR UPDATE
    ), known AS MATERIALIZED (
        SELECT locked.id, locked.key FROM locked CROSS JOIN LATERAL (
            SELECT FROM jobs AS other WHERE other.stage = $3 AND other.key = locked.key OFFSET 0
        ) AS other
    ), moving AS MATERIALIZED (
        SELECT id, state AS came, due_at,
               (CASE WHEN state = 4 THEN 4
                     WHEN "group" IS NOT NULL AND (SELECT after <> '{}' FROM stages WHERE id = $3) THEN 2
                     WHEN due_at > $4 THEN 1 ELSE 0 END)::smallint AS went
        FROM locked WHERE id <> ALL (ARRAY (SELECT id FROM known))
    ), moved AS (
        UPDATE jobs SET stage = $3, state = went, due_at = moving.due_at, open = false, changed_at = $4
        FROM moving WHERE jobs.id = moving.id
    ), changes (stage, kind, delta) AS (
        SELECT $2::integer, came, -1 FROM moving
        UNION ALL SELECT $3::integer, went, 1 FROM moving
        UNION ALL SELECT $3::integer, 7::smallint, 1 FROM moving
    ), "#,
    counted!(),
    "SELECT (SELECT count(*) FROM moving), ARRAY (SELECT key FROM known ORDER BY id)"
);

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
    let statement = session.client().prepare(MOVE).await?;
    try_join(session.begin(BEGIN), session.enter(&groups, &[])).await?;
    let row = session.client().query_one(&statement, &[&ids, &source, &target, &micros(now)]).await;
    // A job with one of the keys came meanwhile: the next try sees it.
    let row = row.map_err(|error| match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => Failure::outrun(),
        _ => error.into(),
    })?;
    try_join(session.release_groups(&groups, &times), session.commit())
        .await
        .map_err(Failure::with_commit)?;
    let last = ids.last().filter(|_| ids.len() == most);
    Ok(StageMove {
        jobs: row.try_get::<_, i64>(0)?.unsigned_abs(),
        known: row.try_get(1)?,
        next: last.map(|id| JobId::new(id.unsigned_abs())),
    })
}
