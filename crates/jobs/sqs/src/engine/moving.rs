//! Jobs that leave for another engine, and jobs that come from one.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};
use tollway_core::{Name, Timestamp};
use tollway_pipeline::bounds::BATCH_BYTES_MAX;
use tollway_pipeline::engine::checks::within;
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::engine::moving::{MOVED_MARK, MOVING_MARK, MovedJob, moved_mark, moving_mark};
use tollway_pipeline::engine::transition::JobCall;
use tollway_pipeline::*;

use super::Inner;
use super::claim::WRITES_AT_A_TIME;
use super::finish::refuse_cost;
use super::groups::groups_of;
use super::ledger::{DATA_BYTES_MAX, Versioned};
use super::message::Outgoing;
use super::record::LedgerRecord;

impl Inner {
    pub(super) async fn withdraw(
        &self,
        filter: &Filter,
        to: &str,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page<Job>, EngineError> {
        let page = self.scan(filter, after, limit, |record| record.may_move(now)).await?;
        let (mut found, mut bytes, mut next) = (Vec::new(), 0, page.next);
        for one in page.items {
            if one.record.data_in_message {
                let id = one.record.job.id;
                let message = format!("job {id} has more data than the ledger keeps: let it finish here");
                return Err(EngineError::caller(message));
            }
            if bytes >= BATCH_BYTES_MAX {
                next = found.last().map(|one: &Versioned| one.record.job.id);
                break;
            }
            bytes += one.record.job.data.len();
            found.push(one);
        }
        let withdraw = |one: Versioned| async move {
            let withdrawn = self
                .update(one, &[], |record| record.may_move(now).then(|| withdraw_record(record, to, now)));
            Ok::<_, EngineError>(withdrawn.await?.map(|(job, _)| job))
        };
        let mut jobs = stream::iter(found.into_iter().map(withdraw)).buffered(WRITES_AT_A_TIME);
        let (mut items, mut failed) = (Vec::new(), Ok(()));
        while let Some(job) = jobs.next().await {
            match job {
                Ok(job) => items.extend(job),
                Err(error) => failed = Err(error),
            }
        }
        drop(jobs);
        // Also after an error: jobs that have left do not come again.
        self.release_groups(groups_of(&items), now).await?;
        failed?;
        Ok(Page { items, next })
    }

    pub(super) async fn confirm_moved(&self, jobs: Vec<JobId>, to: &str) -> Result<u64, EngineError> {
        let confirm = |job: JobId| async move {
            let Some(known) = self.find(job).await? else { return Ok(0) };
            let marked = self.update(known, &[], |record| {
                let moving =
                    record.job.state == State::Cancelled && record.job.error.starts_with(MOVING_MARK);
                moving.then(|| record.job.error = moved_mark(to))
            });
            Ok::<_, EngineError>(u64::from(marked.await?.is_some()))
        };
        let mut jobs = stream::iter(jobs.into_iter().map(confirm)).buffer_unordered(WRITES_AT_A_TIME);
        let mut confirmed = 0;
        while let Some(one) = jobs.next().await {
            confirmed += one?;
        }
        Ok(confirmed)
    }

    pub(super) async fn import(
        &self,
        jobs: Vec<MovedJob>,
        now: Timestamp,
    ) -> Result<Vec<Enqueued>, EngineError> {
        for moved in &jobs {
            within("bytes of data", moved.job.data.len(), DATA_BYTES_MAX)?;
            refuse_cost(&moved.job.cost)?;
        }
        let known =
            self.ids_of(jobs.iter().map(|moved| (&moved.job.stage, moved.job.key.as_str())), now).await?;
        let ids = self.new_ids(jobs.len()).await?;
        let mut fresh = Vec::new();
        let mut first: HashMap<(Name, String), JobId> = HashMap::new();
        let mut answers = Vec::with_capacity(jobs.len());
        for ((moved, known), id) in jobs.into_iter().zip(known).zip(ids.map(JobId::new)) {
            let place = (moved.job.stage.clone(), moved.job.key.clone());
            answers.push(match known.or_else(|| first.get(&place).copied()) {
                Some(known) => self.bring_back(&moved, known, now).await?,
                None => {
                    first.insert(place, id);
                    fresh.push(LedgerRecord::of_moved(id, &moved.job, &moved.evidence, now));
                    Enqueued::New(id)
                }
            });
        }
        self.send_and_write(fresh, &mut answers, now).await?;
        Ok(answers)
    }

    /// Enqueues a job again that had moved away. Otherwise it is a duplicate.
    async fn bring_back(&self, moved: &MovedJob, id: JobId, now: Timestamp) -> Result<Enqueued, EngineError> {
        let stage = &moved.job.stage;
        let queue = self.queue_name(stage)?;
        let had_moved = |record: &LedgerRecord| {
            record.job.state == State::Cancelled && record.job.error.starts_with(MOVED_MARK)
        };
        let Some(known) =
            self.table().await?.record(&queue, id).await?.filter(|known| had_moved(&known.record))
        else {
            return Ok(Enqueued::Duplicate(id));
        };
        let mut new = LedgerRecord::of_moved(id, &moved.job, &moved.evidence, now);
        self.hold(&mut new).await?;
        let back = |was: &LedgerRecord| {
            let mut back = new.clone();
            back.job.claim_number = back.job.claim_number.max(was.job.claim_number);
            back
        };
        // Its message first: a process that dies now has at worst sent a message of a cancelled job.
        let record = back(&known.record);
        self.send_moved(&record, now).await?;
        let changed = self
            .update(known, &[Kind::Enqueued], |record| had_moved(record).then(|| *record = back(record)))
            .await?;
        let Some(((), Versioned { record, .. })) = changed else { return Ok(Enqueued::Duplicate(id)) };
        match record.job.state {
            State::Delayed => self.due(stage, record.job.due_at, id),
            State::Ready => self.ready(stage, 1),
            State::Held => self.release_groups(groups_of([&record.job]), now).await?,
            _ => {}
        }
        Ok(Enqueued::New(id))
    }

    async fn send_moved(&self, record: &LedgerRecord, now: Timestamp) -> Result<(), EngineError> {
        let queues = self.queues(&record.job.stage).await?;
        match record.job.state {
            State::Held => Ok(()),
            State::Dead => queues.dead.send(vec![Outgoing::of_dead(record, &record.job.data, now)]).await,
            _ => queues.queue.send(vec![Outgoing::of(record, now)]).await,
        }
    }
}

/// Takes a job out. As it was.
fn withdraw_record(record: &mut LedgerRecord, to: &str, now: Timestamp) -> Job {
    if record.job.state == State::Running {
        record.apply(JobCall::Due, now);
    }
    let was = record.job.clone();
    record.apply(JobCall::Withdraw, now);
    record.job.error = moving_mark(to, was.state);
    was
}
