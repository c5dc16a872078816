//! Enqueueing, also of what finished jobs hand on.

use std::collections::HashMap;

use futures_util::future::{try_join, try_join4};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tollway_core::{Name, Timestamp};

use super::error::Failure;
use super::lane::Operation;
use super::session::{BEGIN, Parameters, Session, moved};
use super::statements::Index;
use crate::bounds::{BATCH_BYTES_MAX, BATCH_MAX};
use crate::engine::moving::{MOVED_MARK, MOVING_MARK};
use crate::engine::stored::micros;
use crate::{Enqueued, JobId, NewJob};

/// A call of `enqueue`.
pub(super) struct Enqueue {
    pub(super) jobs: Vec<NewJob>,
    pub(super) now: Timestamp,
}

impl Operation for Enqueue {
    type Answer = Vec<Enqueued>;

    fn bytes(&self) -> usize {
        self.jobs.iter().map(NewJob::bytes).sum()
    }

    fn joins(&self, others: &[&Self]) -> bool {
        let jobs: usize = others.iter().map(|other| other.jobs.len()).sum();
        let bytes: usize = others.iter().map(|other| other.bytes()).sum();
        jobs + self.jobs.len() <= BATCH_MAX && bytes + self.bytes() <= BATCH_BYTES_MAX
    }

    async fn run(session: &Session, calls: &[&Self]) -> Result<(Vec<Vec<Enqueued>>, bool), Failure> {
        let jobs: Vec<(&NewJob, Timestamp)> =
            calls.iter().flat_map(|call| call.jobs.iter().map(|job| (job, call.now))).collect();
        let rows = Rows::new(session, &jobs).await?;
        let (groups, now) = rows.moved_groups();
        let (_, _, inserted, _) = try_join4(
            session.begin(BEGIN),
            session.enter(&groups, &[]),
            rows.forget_and_insert(session),
            session.release_groups(&groups, &now),
        )
        .await?;
        let woke = inserted.iter().any(Option::is_some);
        let mut enqueued = rows.enqueued(session, inserted).await?.into_iter();
        session.commit().await?;
        let answers = calls.iter().map(|call| enqueued.by_ref().take(call.jobs.len()).collect()).collect();
        Ok((answers, woke))
    }
}

/// The values of each column.
pub(super) struct Columns<'r> {
    stages: &'r [i32],
    keys: Vec<&'r str>,
    groups: Vec<Option<&'r str>>,
    data: Vec<&'r str>,
    priorities: Vec<i16>,
    costs: Vec<&'r str>,
    due: Vec<i64>,
    now: Vec<i64>,
}

impl Columns<'_> {
    /// As statements take them.
    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let Self { stages, keys, groups, data, priorities, costs, due, now } = self;
        vec![stages, keys, groups, data, priorities, costs, due, now]
    }

    /// Where the first job with this key is.
    pub(super) fn place(&self, stage: i32, key: &str) -> Option<usize> {
        (0..self.keys.len()).find(|place| self.stages[*place] == stage && self.keys[*place] == key)
    }
}

/// Jobs as columns of arrays.
pub(super) struct Rows<'j> {
    jobs: &'j [(&'j NewJob, Timestamp)],
    stages: Vec<i32>,
}

impl<'j> Rows<'j> {
    /// Makes stages that are new. Not within a transaction.
    pub(super) async fn new(session: &Session, jobs: &'j [(&'j NewJob, Timestamp)]) -> Result<Self, Failure> {
        let mut ids: HashMap<&Name, i32> = HashMap::new();
        let mut stages = Vec::with_capacity(jobs.len());
        for (job, _) in jobs {
            let id = match ids.get(&job.stage) {
                Some(id) => *id,
                None => session.stage_id(&job.stage).await?,
            };
            ids.insert(&job.stage, id);
            stages.push(id);
        }
        Ok(Self { jobs, stages })
    }

    /// The groups that these jobs enter, for the locks and the look at held jobs.
    pub(super) fn moved_groups(&self) -> (Vec<&'j str>, Vec<i64>) {
        moved(self.jobs.iter().filter_map(|(job, now)| Some((job.group.as_deref()?, *now))))
    }

    pub(super) fn columns(&self) -> Columns<'_> {
        let jobs = self.jobs.iter().map(|(job, _)| *job);
        Columns {
            stages: &self.stages,
            keys: jobs.clone().map(|job| job.key.as_str()).collect(),
            groups: jobs.clone().map(|job| job.group.as_deref()).collect(),
            data: jobs.clone().map(|job| job.data.as_str()).collect(),
            priorities: jobs.clone().map(|job| job.priority).collect(),
            costs: jobs.clone().map(|job| job.cost.as_str()).collect(),
            due: jobs.map(|job| micros(job.not_before)).collect(),
            now: self.jobs.iter().map(|(_, now)| micros(*now)).collect(),
        }
    }

    /// Inserts them. For each: its new number; none: its stage knew the key.
    pub(super) async fn insert(&self, session: &Session) -> Result<Vec<Option<JobId>>, Failure> {
        if self.jobs.is_empty() {
            return Ok(Vec::new());
        }
        let columns = self.columns();
        let keys = &columns.keys;
        let rows = session.query(Index::Insert, &columns.parameters()).await?;
        let mut ids: HashMap<(i32, &str), JobId> = HashMap::with_capacity(rows.len());
        for row in &rows {
            let id: i64 = row.try_get(0)?;
            ids.insert((row.try_get(1)?, row.try_get(2)?), JobId::new(id.unsigned_abs()));
        }
        // The first of a key within a batch is the new one.
        Ok((0..self.jobs.len()).map(|index| ids.remove(&(self.stages[index], keys[index]))).collect())
    }

    /// Inserts all of them. False: a key is not new, so the transaction has failed.
    pub(super) async fn insert_all(&self, session: &Session) -> Result<bool, Failure> {
        if self.jobs.is_empty() {
            return Ok(true);
        }
        match session.try_query(Index::InsertAll, &self.columns().parameters()).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Inserts those whose keys are new, in place of cancelled jobs where that is meant. Both statements are sent at once.
    async fn forget_and_insert(&self, session: &Session) -> Result<Vec<Option<JobId>>, Failure> {
        let again = (0..self.jobs.len()).filter(|index| self.jobs[*index].0.again);
        let (stages, keys): (Vec<i32>, Vec<&str>) =
            again.map(|index| (self.stages[index], self.jobs[index].0.key.as_str())).unzip();
        let forget = async {
            match keys.is_empty() {
                true => Ok(0),
                false => {
                    let which: Parameters<'_> = &[&stages, &keys, &MOVED_MARK, &MOVING_MARK];
                    session.number(Index::ForgetCancelled, which).await
                }
            }
        };
        Ok(try_join(forget, self.insert(session)).await?.1)
    }

    /// The answers, with the numbers of jobs that were there. Before the commit: a purge may remove one meanwhile, and then
    /// all is done again.
    pub(super) async fn enqueued(
        &self,
        session: &Session,
        inserted: Vec<Option<JobId>>,
    ) -> Result<Vec<Enqueued>, Failure> {
        let missing = (0..self.jobs.len()).filter(|index| inserted[*index].is_none());
        let (stages, keys): (Vec<i32>, Vec<&str>) =
            missing.map(|index| (self.stages[index], self.jobs[index].0.key.as_str())).unzip();
        let mut existing: HashMap<(i32, String), Enqueued> = HashMap::new();
        if !keys.is_empty() {
            for row in session.query(Index::Existing, &[&stages, &keys, &MOVED_MARK, &MOVING_MARK]).await? {
                let id = JobId::new(row.try_get::<_, i64>(0)?.unsigned_abs());
                let known = if row.try_get(3)? { Enqueued::Cancelled(id) } else { Enqueued::Duplicate(id) };
                existing.insert((row.try_get(1)?, row.try_get(2)?), known);
            }
        }
        let answer = |(index, new): (usize, Option<JobId>)| match new {
            Some(id) => Ok(Enqueued::New(id)),
            None => {
                let key = (self.stages[index], self.jobs[index].0.key.clone());
                existing.get(&key).copied().ok_or_else(Failure::outrun)
            }
        };
        inserted.into_iter().enumerate().map(answer).collect()
    }
}
