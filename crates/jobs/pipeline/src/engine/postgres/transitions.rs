//! Applies the rules of [`transition`] to locked rows: what operators change, and what moves between engines.

use std::collections::HashSet;

use futures_util::future::try_join;
use tokio_postgres::{Row, Statement};
use tollway_core::Timestamp;

use super::error::Failure;
use super::session::{BEGIN, Parameters, Session};
use super::statements::counted;
use crate::engine::stored::{micros, stored, time};
use crate::job::transition::{JobCall, Lifecycle, transition};
use crate::{JobId, State};

/// A job whose row this transaction has locked.
pub(super) struct LockedJob {
    pub(super) id: i64,
    pub(super) stage: i32,
    pub(super) key: String,
    pub(super) group: Option<String>,
    pub(super) life: Lifecycle,
}

/// Finds the rows of [`LockedJob`]s. Conditions follow, and `LOCKED`.
pub(super) const SELECT_LOCKED: &str = "
    SELECT id, stage, key, \"group\", state, open, claim_number, due_at, changed_at, failures, crashes,
           rate_limited, priority
    FROM jobs WHERE ";

/// In this order, sessions wait for each other and do not deadlock.
pub(super) const LOCKED: &str = " ORDER BY jobs.id FOR UPDATE";

impl LockedJob {
    pub(super) fn read(row: &Row) -> Result<Self, Failure> {
        let number = |column| -> Result<u32, Failure> { Ok(row.try_get::<_, i32>(column)?.unsigned_abs()) };
        let life = Lifecycle {
            state: State::of_number(row.try_get::<_, i16>(4)?.into()).unwrap_or(State::Ready),
            open: row.try_get(5)?,
            claim_number: row.try_get::<_, i64>(6)?.unsigned_abs(),
            due_at: time(row.try_get(7)?),
            changed_at: time(row.try_get(8)?),
            failures: number(9)?,
            crashes: number(10)?,
            rate_limited: number(11)?,
            priority: row.try_get(12)?,
        };
        let (id, stage, key, group) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        Ok(Self { id, stage, key, group, life })
    }

    /// What a call makes of it, in its stage. None: it does not apply.
    pub(super) fn after(self, call: JobCall<'_>, now: Timestamp) -> Option<Changed> {
        let after = transition(&self.life, call, now)?.after;
        Some(Changed { to: self.stage, after, error: None, job: self })
    }
}

/// What a call has made of a job.
pub(super) struct Changed {
    pub(super) job: LockedJob,
    /// The stage it is in now.
    pub(super) to: i32,
    pub(super) after: Lifecycle,
    /// In place of its error; none: that stays.
    pub(super) error: Option<String>,
}

/// Writes what calls have made of locked jobs, and counts it.
const WRITE: &str = concat!(
    "WITH given AS MATERIALIZED (
        SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::smallint[], $5::smallint[], $6::boolean[],
                             $7::bigint[], $8::bigint[], $9::bigint[], $10::integer[], $11::integer[], $12::integer[],
                             $13::smallint[], $14::text[])
            AS g (job, stage, stage_after, came, went, open, claim_number, due_at, changed_at, failures, crashes,
                  rate_limited, priority, error)
    ), changed AS (
        UPDATE jobs SET stage = stage_after, state = went, open = given.open, claim_number = given.claim_number,
                        due_at = given.due_at, changed_at = given.changed_at, failures = given.failures,
                        crashes = given.crashes, rate_limited = given.rate_limited, priority = given.priority,
                        error = coalesce(given.error, jobs.error)
        FROM given WHERE jobs.id = job
    ), changes (stage, kind, delta) AS (
        SELECT stage, came, -1 FROM given UNION ALL SELECT stage_after, went, 1 FROM given
        UNION ALL SELECT stage_after, 7::smallint, 1 FROM given WHERE stage <> stage_after
    ), ",
    counted!(),
    "SELECT 1"
);

/// Prepares [`write`], before the transaction begins.
pub(super) async fn prepare(session: &Session) -> Result<Statement, Failure> {
    Ok(session.client().prepare(WRITE).await?)
}

pub(super) async fn write(
    session: &Session,
    write: &Statement,
    changed: &[Changed],
) -> Result<(), tokio_postgres::Error> {
    let of = |number: fn(&Changed) -> i64| changed.iter().map(number).collect::<Vec<i64>>();
    let int = |number: fn(&Changed) -> i32| changed.iter().map(number).collect::<Vec<i32>>();
    let small = |number: fn(&Changed) -> i16| changed.iter().map(number).collect::<Vec<i16>>();
    let times = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let [failures, crashes, limited]: [Vec<i32>; 3] = [
        |life: &Lifecycle| life.failures,
        |life: &Lifecycle| life.crashes,
        |life: &Lifecycle| life.rate_limited,
    ]
    .map(|count: fn(&Lifecycle) -> u32| changed.iter().map(|one| times(count(&one.after))).collect());
    let errors: Vec<Option<&str>> = changed.iter().map(|one| one.error.as_deref()).collect();
    let state = |state: State| i16::try_from(state.number()).unwrap_or(i16::MAX);
    let open: Vec<bool> = changed.iter().map(|one| one.after.open).collect();
    let (came, went): (Vec<i16>, Vec<i16>) =
        changed.iter().map(|one| (state(one.job.life.state), state(one.after.state))).unzip();
    session
        .client()
        .query(
            write,
            &[
                &of(|one| one.job.id),
                &int(|one| one.job.stage),
                &int(|one| one.to),
                &came,
                &went,
                &open,
                &of(|one| stored(one.after.claim_number)),
                &of(|one| micros(one.after.due_at)),
                &of(|one| micros(one.after.changed_at)),
                &failures,
                &crashes,
                &limited,
                &small(|one| one.after.priority),
                &errors,
            ],
        )
        .await
        .map(drop)
}

/// Begins a transaction in which jobs of these groups move, and locks the rows that a statement of [`SELECT_LOCKED`] finds.
pub(super) async fn lock(
    session: &Session,
    groups: &[&str],
    select: &Statement,
    with: Parameters<'_>,
) -> Result<Vec<LockedJob>, Failure> {
    try_join(session.begin(BEGIN), session.enter(groups, &[])).await?;
    session.client().query(select, with).await?.iter().map(LockedJob::read).collect()
}

/// The stages that hold jobs with a group.
pub(super) async fn stages_that_hold(session: &Session) -> Result<HashSet<i32>, Failure> {
    let rows = session.client().query("SELECT id FROM stages WHERE after <> '{}'", &[]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// Locks a job. None: there is none.
pub(super) async fn lock_one(session: &Session, id: JobId) -> Result<Option<LockedJob>, Failure> {
    let select = format!("{SELECT_LOCKED} id = $1 {LOCKED}");
    let row = session.client().query_opt(&select, &[&stored(id.get())]).await?;
    row.as_ref().map(LockedJob::read).transpose()
}
