//! Jobs that leave for another engine, and jobs that come from one.

use std::collections::HashMap;

use futures_util::future::{try_join, try_join3};
use tollway_core::Timestamp;

use super::enqueue::Rows;
use super::error::{Failure, at_commit};
use super::rows::{Conditions, SELECT_JOBS, job, limit};
use super::session::{BEGIN, Session, moved};
use super::statements::counted;
use super::transitions::{self, Changed, LOCKED, LockedJob, SELECT_LOCKED};
use crate::bounds::BATCH_BYTES_MAX;
use crate::engine::moving::{MOVED_MARK, MOVING_MARK, MovedJob, moved_mark, moving_mark};
use crate::engine::stored::{micros, name, stored};
use crate::job::transition::JobCall;
use crate::{Enqueued, Evidence, Filter, Job, JobId, NewJob, Page};

/// Jobs that can be withdrawn: ready, delayed, held and dead ones.
const APPLIES: &str = "jobs.state IN (0, 1, 2, 4)";

/// Withdraws jobs that were found, if they still match once they are locked.
pub(super) async fn withdraw(
    session: &Session,
    filter: Filter,
    to: String,
    after: Option<JobId>,
    most: usize,
    now: Timestamp,
) -> Result<Page<Job>, Failure> {
    let mut conditions = Conditions::new(&filter, after);
    let place = conditions.push(limit(most));
    let text = &conditions.text;
    let select = format!(
        "SELECT id, \"group\", octet_length(data) FROM jobs WHERE {APPLIES} AND {text} ORDER BY id LIMIT {place}"
    );
    let rows = session.client().query(&select, &conditions.parameters()).await?;
    let (mut ids, mut groups, mut bytes): (Vec<i64>, Vec<Option<&str>>, usize) = (Vec::new(), Vec::new(), 0);
    for row in &rows {
        if bytes >= BATCH_BYTES_MAX {
            break;
        }
        ids.push(row.try_get(0)?);
        groups.push(row.try_get(1)?);
        bytes += usize::try_from(row.try_get::<_, i32>(2)?).unwrap_or(0);
    }
    let (groups, times) = moved(groups.into_iter().flatten().map(|group| (group, now)));

    let mut conditions = Conditions::new(&filter, after);
    conditions.and("jobs.id = ANY ($)", ids.clone());
    let text = &conditions.text;
    let lock = session.client().prepare(&format!("{SELECT_LOCKED} {APPLIES} AND {text} {LOCKED}")).await?;
    let read = format!("{SELECT_JOBS} WHERE jobs.id = ANY ($1::bigint[]) ORDER BY jobs.id");
    let (read, write) =
        try_join(async { Ok(session.client().prepare(&read).await?) }, transitions::prepare(session)).await?;
    let mut leaving = Vec::with_capacity(ids.len());
    for found in transitions::lock(session, &groups, &lock, &conditions.parameters()).await? {
        let mark = moving_mark(&to, found.life.state);
        leaving.extend(found.after(JobCall::Withdraw, now).map(|left| Changed { error: Some(mark), ..left }));
    }
    // As they were.
    let locked: Vec<i64> = leaving.iter().map(|left| left.job.id).collect();
    let rows = session.client().query(&read, &[&locked]).await?;
    let items = rows.iter().map(|row| job(row, name(row.try_get(16)?)?)).collect::<Result<Vec<Job>, _>>()?;
    transitions::write(session, &write, &leaving).await?;
    session.release_and_commit(&groups, &times).await?;
    let last = ids.last().filter(|_| ids.len() == most || bytes >= BATCH_BYTES_MAX);
    Ok(Page { items, next: last.map(|id| JobId::new(id.unsigned_abs())) })
}

pub(super) async fn confirm(session: &Session, jobs: Vec<JobId>, to: String) -> Result<u64, Failure> {
    let ids: Vec<i64> = jobs.iter().map(|job| stored(job.get())).collect();
    let update = "UPDATE jobs SET error = $2 WHERE id = ANY ($1) AND state = 6 AND starts_with(error, $3)";
    let confirmed = session.client().execute(update, &[&ids, &moved_mark(&to), &MOVING_MARK]).await;
    confirmed.map_err(|error| at_commit(&error))
}

pub(super) async fn import(
    session: &Session,
    jobs: Vec<MovedJob>,
    now: Timestamp,
) -> Result<Vec<Enqueued>, Failure> {
    let new: Vec<NewJob> = jobs.iter().map(|moved| NewJob::of_moved(&moved.job)).collect();
    let new: Vec<(&NewJob, Timestamp)> = new.iter().map(|job| (job, now)).collect();
    let rows = Rows::new(session, &new).await?;
    let (groups, times) = rows.moved_groups();
    let (attempted, bring_back) =
        try_join(session.client().prepare(ATTEMPTED), session.client().prepare(BRING_BACK)).await?;
    let write = transitions::prepare(session).await?;
    let (_, _, mut inserted) =
        try_join3(session.begin(BEGIN), session.enter(&groups, &[]), rows.insert(session)).await?;
    rows.bring_back(session, &bring_back, &mut inserted).await?;
    let came: HashMap<i64, &MovedJob> =
        inserted.iter().zip(&jobs).filter_map(|(id, moved)| Some((stored((*id)?.get()), moved))).collect();
    let ids: Vec<i64> = came.keys().copied().collect();
    let mut arrived = Vec::with_capacity(ids.len());
    let holding = transitions::stages_that_hold(session).await?;
    let lock = format!("{SELECT_LOCKED} id = ANY ($1::bigint[]) {LOCKED}");
    for row in session.client().query(&lock, &[&ids]).await? {
        let job = LockedJob::read(&row)?;
        let Some(from) = came.get(&job.id).map(|moved| &moved.job) else { continue };
        let held = job.group.is_some() && holding.contains(&job.stage);
        let imported = job.after(JobCall::Import { from, held }, now);
        arrived.extend(imported.map(|job| Changed { error: Some(from.error.clone()), ..job }));
    }
    transitions::write(session, &write, &arrived).await?;
    let attempts: Vec<(i64, &Evidence)> =
        came.iter().flat_map(|(id, moved)| moved.evidence.iter().map(|one| (*id, one))).collect();
    attempt_rows(session, &attempted, &attempts).await?;
    session.release_groups(&groups, &times).await?;
    let enqueued = rows.enqueued(session, inserted).await?.into_iter();
    session.commit().await?;
    Ok(enqueued.map(Enqueued::of_import).collect())
}

/// Puts jobs that had moved away in the place where they were.
const BRING_BACK: &str = concat!(
    r#"WITH given AS MATERIALIZED (
        SELECT g.*, jobs.id FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[],
            $7::bigint[], $8::bigint[]) AS g (stage, key, "group", data, priority, cost, due_at, now)
        CROSS JOIN LATERAL (
            SELECT id FROM jobs WHERE jobs.stage = g.stage AND jobs.key = g.key AND jobs.state = 6
                AND starts_with(jobs.error, $9) OFFSET 0 FOR UPDATE
        ) AS jobs
    ), back AS (
        UPDATE jobs SET created_at = now, cost = given.cost, "group" = given."group", data = given.data, worker = ''
        FROM given WHERE jobs.id = given.id RETURNING jobs.id, jobs.stage, jobs.key
    ), attempted AS (
        DELETE FROM evidence WHERE job = ANY (ARRAY (SELECT id FROM given))
    ), changes (stage, kind, delta) AS (
        SELECT stage, 7::smallint, count(*) FROM back GROUP BY stage
    ), "#,
    counted!(),
    "SELECT id, stage, key FROM back"
);

impl Rows<'_> {
    /// Fills in the numbers of jobs that are back.
    async fn bring_back(
        &self,
        session: &Session,
        statement: &tokio_postgres::Statement,
        inserted: &mut [Option<JobId>],
    ) -> Result<(), Failure> {
        if inserted.iter().all(Option::is_some) {
            return Ok(());
        }
        let columns = self.columns();
        let mut parameters = columns.parameters();
        parameters.push(&MOVED_MARK);
        for row in session.client().query(statement, &parameters).await? {
            let (id, stage, key): (i64, i32, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            // The first of a key within a batch is the one that is back.
            if let Some(place) = columns.place(stage, key).filter(|place| inserted[*place].is_none()) {
                inserted[place] = Some(JobId::new(id.unsigned_abs()));
            }
        }
        Ok(())
    }
}

const ATTEMPTED: &str = "
    INSERT INTO evidence (job, claim_number, worker, started_at, ended_at, cause, error, detail)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                         $8::text[])
    ON CONFLICT (job, claim_number) DO NOTHING";

async fn attempt_rows(
    session: &Session,
    statement: &tokio_postgres::Statement,
    attempts: &[(i64, &Evidence)],
) -> Result<(), Failure> {
    let numbers =
        |value: fn(&Evidence) -> i64| attempts.iter().map(|(_, one)| value(one)).collect::<Vec<_>>();
    let texts = |value: fn(&Evidence) -> &str| attempts.iter().map(|(_, one)| value(one)).collect::<Vec<_>>();
    let jobs: Vec<i64> = attempts.iter().map(|(job, _)| *job).collect();
    let claims = numbers(|one| stored(one.number));
    let [started, ended] = [numbers(|one| micros(one.started_at)), numbers(|one| micros(one.ended_at))];
    let workers = texts(|one| &one.worker);
    let causes = texts(|one| one.attempt.cause().as_str());
    let [errors, details] = [texts(|one| one.attempt.error()), texts(|one| one.attempt.details())];
    session
        .client()
        .execute(statement, &[&jobs, &claims, &workers, &started, &ended, &causes, &errors, &details])
        .await?;
    Ok(())
}
