//! What operators change: jobs, stages, and what is forgotten. Also claims of workers that are known to be dead.

use futures_util::future::{try_join, try_join3};
use tokio_postgres::Statement;
use tollway_core::{Name, Timestamp};

use super::error::{Failure, at_commit};
use super::rows::{Conditions, limit};
use super::session::{BEGIN, Session, moved};
use super::statements::counted;
use super::transitions::{self, LOCKED, LockedJob, SELECT_LOCKED};
use crate::bounds::PAGE_MAX;
use crate::engine::stored::{micros, states_of};
use crate::job::transition::JobCall;
use crate::{Change, Changed, Edit, Edited, EngineError, Filter, JobId, StageChange};

/// [`JobCall::Abandon`].
const ABANDON: &str = "
    WITH held AS MATERIALIZED (
        SELECT id FROM jobs
        WHERE stage = ANY (ARRAY (SELECT id FROM stages)) AND state IN (1, 3) AND state = 3 AND due_at > $2
            AND ($1::text IS NULL OR worker = $1)
        ORDER BY id FOR UPDATE
    ), moved AS (
        UPDATE jobs SET due_at = $2 WHERE id = ANY (ARRAY (SELECT id FROM held))
    )
    SELECT count(*) FROM held";

pub(super) async fn abandon(
    session: &Session,
    worker: Option<String>,
    now: Timestamp,
) -> Result<u64, Failure> {
    let abandoned = session.client().query_one(ABANDON, &[&worker, &micros(now)]).await;
    let abandoned: i64 = abandoned.map_err(|error| at_commit(&error))?.try_get(0)?;
    Ok(abandoned.unsigned_abs())
}

pub(super) async fn edit(
    session: &Session,
    job: JobId,
    edit: Edit,
    now: Timestamp,
) -> Result<Edited, Failure> {
    let Edit { data, cost, priority } = edit;
    let cost = cost.as_ref().map(|cost| cost.as_str());
    let write = transitions::prepare(session).await?;
    session.begin(BEGIN).await?;
    let found = transitions::lock_one(session, job).await?;
    let answer = match found {
        None => Edited::Missing,
        Some(found) => {
            let (id, state) = (found.id, found.life.state);
            match found.after(JobCall::Edit { priority }, now) {
                None => Edited::Refused(state),
                Some(changed) => {
                    transitions::write(session, &write, &[changed]).await?;
                    let set =
                        "UPDATE jobs SET cost = coalesce($2, cost), data = coalesce($3, data) WHERE id = $1";
                    session.client().execute(set, &[&id, &cost, &data]).await?;
                    Edited::Changed
                }
            }
        }
    };
    session.commit().await?;
    Ok(answer)
}

/// Changes jobs that were found, if they still match once they are locked.
pub(super) async fn change(
    session: &Session,
    filter: Filter,
    change: Change,
    after: Option<JobId>,
    most: usize,
    now: Timestamp,
) -> Result<Changed, Failure> {
    let applies = states_of(change);
    let mut conditions = Conditions::new(&filter, after);
    let place = conditions.push(limit(most));
    let text = &conditions.text;
    let select =
        format!("SELECT id, \"group\" FROM jobs WHERE {applies} AND {text} ORDER BY id LIMIT {place}");
    let rows = session.client().query(&select, &conditions.parameters()).await?;
    let ids = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    let groups = rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<Option<&str>>, _>>()?;
    let (groups, times) = moved(groups.into_iter().flatten().map(|group| (group, now)));

    let mut conditions = Conditions::new(&filter, after);
    conditions.and("jobs.id = ANY ($)", ids.clone());
    let lock = format!("{SELECT_LOCKED} {applies} AND {} {LOCKED}", conditions.text);
    let (lock, write) =
        try_join(async { Ok(session.client().prepare(&lock).await?) }, transitions::prepare(session)).await?;
    let found = transitions::lock(session, &groups, &lock, &conditions.parameters()).await?;
    let changed: Vec<_> =
        found.into_iter().filter_map(|job| job.after(JobCall::Change(change), now)).collect();
    transitions::write(session, &write, &changed).await?;
    session.release_and_commit(&groups, &times).await?;
    let last = ids.last().filter(|_| ids.len() == most);
    Ok(Changed { jobs: changed.len() as u64, next: last.map(|id| JobId::new(id.unsigned_abs())) })
}

pub(super) async fn set_stage(
    session: &Session,
    stage: Name,
    change: StageChange,
    now: Timestamp,
) -> Result<(), Failure> {
    let mut after = None;
    if let Some(names) = &change.after {
        if names.contains(&stage) {
            return Err(
                EngineError::caller(format!("stage {} cannot wait for itself", stage.as_str())).into()
            );
        }
        let mut ids = Vec::with_capacity(names.len());
        // The stage itself first, as it is named first.
        session.stage_id(&stage).await?;
        for name in names {
            ids.push(session.stage_id(name).await?);
        }
        after = Some(ids);
    }
    let id = session.stage_id(&stage).await?;
    let write = transitions::prepare(session).await?;
    session.begin(BEGIN).await?;
    if after.is_some() {
        session.close_gate().await?;
    }
    let update = "UPDATE stages SET paused = coalesce($2, paused), after = coalesce($3, after),
        concurrency = CASE WHEN $4 THEN $5 ELSE concurrency END WHERE id = $1";
    let concurrency = change.concurrency.flatten().map(i64::from);
    let set = change.concurrency.is_some();
    session.client().execute(update, &[&id, &change.paused, &after, &set, &concurrency]).await?;
    if let Some(after) = after {
        release_held(session, &write, id, &after, now).await?;
    }
    session.commit().await
}

/// Looks at every group with held jobs again: fewer stages may hold them now, or none. The gate is closed.
async fn release_held(
    session: &Session,
    write: &Statement,
    stage: i32,
    after: &[i32],
    now: Timestamp,
) -> Result<(), Failure> {
    let held = session.client().prepare(&format!("{SELECT_LOCKED} {FREE}")).await?;
    let mut from = String::new();
    loop {
        let rows = session.client().query(&held, &[&from, &stage, &after, &limit(PAGE_MAX)]).await?;
        let jobs = rows.iter().map(LockedJob::read).collect::<Result<Vec<_>, _>>()?;
        let Some(group) = jobs.last().and_then(|job| job.group.clone()) else { return Ok(()) };
        from = group;
        let released: Vec<_> =
            jobs.into_iter().filter_map(|job| job.after(JobCall::GroupLeft, now)).collect();
        transitions::write(session, write, &released).await?;
    }
}

/// Held jobs of a stage whose groups have no job in some stages that has not left them. Those of a page that are released are
/// not found again.
const FREE: &str = r#"
    jobs."group" >= $1 AND jobs.stage = $2 AND jobs.state = 2
        AND NOT EXISTS (SELECT FROM jobs AS other WHERE other."group" = jobs."group"
                            AND other.stage = ANY ($3::integer[]) AND other.state < 5)
    ORDER BY jobs."group", jobs.id LIMIT $4 FOR UPDATE"#;

pub(super) async fn purge(
    session: &Session,
    stage: Name,
    before: Timestamp,
    most: usize,
) -> Result<u64, Failure> {
    let Some(stage) = session.stage(&stage).await? else { return Ok(0) };
    let purge = format!(
        "WITH old AS MATERIALIZED (
            SELECT id, state FROM jobs WHERE stage = $1 AND state >= 5 AND changed_at < $2
            ORDER BY changed_at LIMIT $3 FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM jobs WHERE id = ANY (ARRAY (SELECT id FROM old))
        ), completed AS (
            DELETE FROM completions WHERE stage = $1 AND job = ANY (ARRAY (SELECT id FROM old))
        ), attempted AS (
            DELETE FROM evidence WHERE job = ANY (ARRAY (SELECT id FROM old))
        ), changes (stage, kind, delta) AS (
            SELECT $1::integer, state, -1 FROM old
        ), {} SELECT count(*) FROM old",
        counted!()
    );
    let purge = session.client().prepare(&purge).await?;
    let (_, purged, _) = try_join3(
        session.begin(BEGIN),
        async { Ok(session.client().query_one(&purge, &[&stage, &micros(before), &limit(most)]).await?) },
        session.commit(),
    )
    .await
    .map_err(Failure::with_commit)?;
    Ok(purged.try_get::<_, i64>(0)?.unsigned_abs())
}
