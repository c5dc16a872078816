//! Between rows and values.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tollway_core::{Name, Retry};

use super::error::Failure;
use crate::engine::stored::{stored, time};
use crate::{EngineError, Filter, Job, JobCost, JobId, State};

/// The columns of [`job`], and the name of the stage.
pub(super) const SELECT_JOBS: &str = r#"
    SELECT jobs.id, key, "group", data, priority, cost, state, due_at, claim_number, worker, failures, crashes, rate_limited,
           error, created_at, changed_at, stages.name
    FROM jobs JOIN stages ON stages.id = jobs.stage"#;

/// A row that begins with the columns of a job.
pub(super) fn job(row: &Row, stage: Name) -> Result<Job, Failure> {
    let state: i16 = row.try_get(6)?;
    let state = State::of_number(state.into()).ok_or_else(|| {
        EngineError::storage(Retry::Useless, format!("a job has state {state}: it was changed by hand"))
    })?;
    Ok(Job {
        id: JobId::new(row.try_get::<_, i64>(0)?.unsigned_abs()),
        stage,
        key: row.try_get(1)?,
        group: row.try_get(2)?,
        data: row.try_get(3)?,
        priority: row.try_get(4)?,
        cost: JobCost::stored(row.try_get(5)?),
        state,
        due_at: time(row.try_get(7)?),
        claim_number: row.try_get::<_, i64>(8)?.unsigned_abs(),
        worker: row.try_get(9)?,
        failures: row.try_get::<_, i32>(10)?.unsigned_abs(),
        crashes: row.try_get::<_, i32>(11)?.unsigned_abs(),
        rate_limited: row.try_get::<_, i32>(12)?.unsigned_abs(),
        error: row.try_get(13)?,
        created_at: time(row.try_get(14)?),
        changed_at: time(row.try_get(15)?),
    })
}

/// Conditions on `jobs`, and their parameters from `$1`.
pub(super) struct Conditions {
    pub(super) text: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Conditions {
    /// The jobs after an id that match a filter. The state is a literal: partial indexes are used only then.
    pub(super) fn new(filter: &Filter, after: Option<JobId>) -> Self {
        let mut conditions = Self { text: "true".to_owned(), values: Vec::new() };
        conditions.and("jobs.id > $", after.map_or(0, |id| stored(id.get())));
        if let Some(job) = filter.job {
            conditions.and("jobs.id = $", stored(job.get()));
        }
        if let Some(stage) = &filter.stage {
            // `+ 0` keeps the indexes of stages out of it: they are not in the order of ids, so that every step through a
            // backlog would sort all the rest of it.
            let is_stage = "jobs.stage + 0 = (SELECT id FROM stages WHERE name = $)";
            conditions.and(is_stage, stage.as_str().to_owned());
        }
        if let Some(group) = &filter.group {
            conditions.and("jobs.\"group\" = $", group.clone());
        }
        if let Some(key) = &filter.key {
            // Names every stage, because the index of keys begins with it.
            conditions.and("jobs.stage = ANY (ARRAY (SELECT id FROM stages)) AND jobs.key = $", key.clone());
        }
        if let Some(error) = &filter.error {
            conditions.and("position(lower($::text COLLATE \"C\") IN lower(jobs.error)) > 0", error.clone());
        }
        if let Some(state) = filter.state {
            conditions.text.push_str(&format!(" AND jobs.state = {}", state.number()));
        }
        conditions
    }

    /// Adds a condition, with `$` for its parameter.
    pub(super) fn and(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        let place = self.push(value);
        self.text.push_str(&format!(" AND {}", condition.replace('$', &place)));
    }

    /// Adds a parameter. How it is written.
    pub(super) fn push(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }
}

/// A limit as it is sent.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
