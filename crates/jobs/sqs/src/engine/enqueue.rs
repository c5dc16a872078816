//! Jobs from outside. Their messages are sent first and the ledger is written after: a process that dies in between has lost no
//! job, since a message brings all that the ledger needs. A job that is sent again is recognised by its key when it is claimed.
//! Held jobs have no message until they are released: a caller without an answer enqueues them again, and then their group is looked at.

use std::collections::HashMap;

use tollway_core::{Name, Timestamp};
use tollway_pipeline::engine::checks::within;
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::*;

use super::Inner;
use super::counts::Tally;
use super::finish::refuse_cost;
use super::groups::{groups_of, hold_by, membership};
use super::ledger::{
    DATA_BYTES_MAX, Versioned, item_of, job_key, key_key, put_dead, put_key, read_id, read_record,
};
use super::message::Outgoing;
use super::record::LedgerRecord;
use super::table::{Guard, Key, WRITE_MAX, Write, Written};

/// How many jobs are written together: a dead letter of a group is four items.
const JOBS_AT_ONCE: usize = (WRITE_MAX - 1) / 4;

/// How many bytes of data are written together: a transaction has at most 4 MB.
const BYTES_AT_ONCE: usize = 3 << 20;

impl Inner {
    pub(super) async fn enqueue(
        &self,
        jobs: Vec<NewJob>,
        now: Timestamp,
    ) -> Result<Vec<Enqueued>, EngineError> {
        for job in &jobs {
            within("bytes of data", job.data().len(), DATA_BYTES_MAX)?;
            refuse_cost(job.own_cost())?;
        }
        let known = self.known_keys(jobs.iter().map(|job| (job.stage(), job.key())), now).await?;
        let ids = self.new_ids(jobs.len()).await?;
        let mut fresh: Vec<LedgerRecord> = Vec::new();
        let mut first: HashMap<(Name, String), JobId> = HashMap::new();
        let mut answers = Vec::with_capacity(jobs.len());
        for ((job, known), id) in jobs.into_iter().zip(known).zip(ids.map(JobId::new)) {
            let place = (job.stage().clone(), job.key().to_owned());
            let known = match (known, first.get(&place)) {
                (_, Some(first)) => Some(Enqueued::Duplicate(*first)),
                (Some(known), None) => self.answer_known(&job, known).await?,
                (None, None) => None,
            };
            answers.push(match known {
                Some(known) => known,
                None => {
                    first.insert(place, id);
                    fresh.push(LedgerRecord::new(id, job, now));
                    Enqueued::New(id)
                }
            });
        }
        self.send_and_write(fresh, &mut answers, now).await?;
        Ok(answers)
    }

    /// A key that its stage knows. None: its cancelled job was forgotten, and the key is free.
    async fn answer_known(&self, job: &NewJob, known: Versioned) -> Result<Option<Enqueued>, EngineError> {
        let id = known.record.job.id;
        Ok(match (known.record.was_cancelled(), job.replaces_cancelled()) {
            (false, _) => Some(Enqueued::Duplicate(id)),
            (true, false) => Some(Enqueued::Cancelled(id)),
            (true, true) => match self.forget(&self.queue_name(job.stage())?, &known).await? {
                true => None,
                // Another process was faster.
                false => Some(Enqueued::Duplicate(id)),
            },
        })
    }

    /// The ids of [`Inner::known_keys`].
    pub(super) async fn ids_of<'a>(
        &self,
        keys: impl Iterator<Item = (&'a Name, &'a str)>,
        now: Timestamp,
    ) -> Result<Vec<Option<JobId>>, EngineError> {
        let known = self.known_keys(keys, now).await?;
        Ok(known.into_iter().map(|known| known.map(|known| known.record.job.id)).collect())
    }

    /// The jobs that have these keys already. A held one may have lost the process that was to look at its group.
    pub(super) async fn known_keys<'a>(
        &self,
        keys: impl Iterator<Item = (&'a Name, &'a str)>,
        now: Timestamp,
    ) -> Result<Vec<Option<Versioned>>, EngineError> {
        let table = self.table().await?;
        let places: Result<Vec<(String, Key)>, EngineError> = keys
            .map(|(stage, key)| self.queue_name(stage).map(|queue| (queue.clone(), key_key(&queue, key))))
            .collect();
        let places = places?;
        let keys: Vec<Key> = places.iter().map(|(_, key)| key.clone()).collect();
        let ids: Vec<Option<JobId>> =
            table.get_many(&keys).await?.iter().map(|item| item.as_ref().and_then(read_id)).collect();
        // A key whose record DynamoDB has deleted is free.
        let records: Vec<Key> =
            places.iter().zip(&ids).filter_map(|((queue, _), id)| id.map(|id| job_key(queue, id))).collect();
        let records = table.get_many(&records).await?.into_iter();
        let records: Result<Vec<Option<Versioned>>, EngineError> =
            records.map(|item| item.as_ref().map(read_record).transpose()).collect();
        let records = records?;
        let jobs = records.iter().flatten().map(|known| &known.record.job);
        let held = groups_of(jobs.filter(|job| job.state == State::Held));
        self.release_groups(held, now).await?;
        let mut records = records.into_iter();
        Ok(ids.into_iter().map(|id| id.and_then(|_| records.next().flatten())).collect())
    }

    /// Sends the messages of new jobs, and then writes them to the ledger. What another process was first with is a duplicate.
    pub(super) async fn send_and_write(
        &self,
        mut fresh: Vec<LedgerRecord>,
        answers: &mut [Enqueued],
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let gates = self.gates().await?;
        fresh.iter_mut().for_each(|record| hold_by(&gates, record));
        // Held jobs are written last: a worker that has done the first job of their group must not find it complete.
        fresh.sort_by_key(|record| record.job.state == State::Held);
        let mut stages: Vec<(Name, Vec<Outgoing>, Vec<Outgoing>)> = Vec::new();
        for record in &fresh {
            let at = stages.iter().position(|(stage, ..)| *stage == record.job.stage);
            let at = at.unwrap_or_else(|| {
                stages.push((record.job.stage.clone(), Vec::new(), Vec::new()));
                stages.len() - 1
            });
            match record.job.state {
                State::Held => {}
                State::Dead => stages[at].2.push(Outgoing::of_dead(record, &record.job.data, now)),
                _ => stages[at].1.push(Outgoing::of(record, now)),
            }
        }
        for (stage, messages, dead) in stages {
            self.know_stage(&stage).await?;
            let queues = self.queues(&stage).await?;
            queues.queue.send(messages).await?;
            queues.dead.send(dead).await?;
        }
        for piece in pieces(&fresh) {
            self.write_new(piece, answers).await?;
        }
        for record in &fresh {
            let Job { stage, id, due_at, .. } = &record.job;
            match record.job.state {
                State::Dead | State::Held => {}
                _ if *due_at > now => self.due(stage, *due_at, *id),
                _ => self.ready(stage, 1),
            }
        }
        let held = fresh.iter().filter(|record| record.job.state == State::Held);
        self.release_groups(groups_of(held.map(|record| &record.job)), now).await
    }

    async fn write_new(&self, piece: &[LedgerRecord], answers: &mut [Enqueued]) -> Result<(), EngineError> {
        let mut left: Vec<&LedgerRecord> = piece.iter().collect();
        while !left.is_empty() {
            let (mut writes, mut owners, mut tally) = (Vec::new(), Vec::new(), Tally::default());
            for record in &left {
                let queue = self.queue_name(&record.job.stage)?;
                writes.push(put_key(&queue, &record.job.key, record.job.id, Guard::Absent));
                writes.push(Write::Put(item_of(&queue, record, 1, None)?, Guard::Absent));
                tally.count(&record.job.stage, Kind::Enqueued, 1);
                tally.count(&record.job.stage, Kind::Jobs(record.job.state), 1);
                if record.job.state == State::Dead {
                    writes.push(put_dead(&queue, record.job.id));
                }
                writes.extend(membership(None, record));
                owners.resize(writes.len(), record.job.id);
            }
            writes.extend(tally.write());
            let lost = match self.table().await?.write(writes).await? {
                Written::Yes => {
                    self.counts.changed();
                    return Ok(());
                }
                Written::Lost(lost) => lost,
            };
            for (index, item) in lost {
                let Some(owner) = owners.get(index).copied() else { continue };
                // A worker was first with this very job, or another process with the key.
                let other = item.as_ref().and_then(read_id).unwrap_or(owner);
                if other != owner {
                    answers.iter_mut().for_each(|answer| {
                        if matches!(answer, Enqueued::New(id) | Enqueued::Duplicate(id) if *id == owner) {
                            *answer = Enqueued::Duplicate(other);
                        }
                    });
                }
                left.retain(|record| record.job.id != owner);
            }
        }
        Ok(())
    }
}

fn pieces(records: &[LedgerRecord]) -> Vec<&[LedgerRecord]> {
    let mut pieces = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, record) in records.iter().enumerate() {
        let evidence: usize = record.evidence.iter().map(|one| one.attempt.details().len() + 1_500).sum();
        let more = record.job.data.len() + evidence;
        if index - start >= JOBS_AT_ONCE || index > start && bytes + more > BYTES_AT_ONCE {
            pieces.push(&records[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += more;
    }
    if start < records.len() {
        pieces.push(&records[start..]);
    }
    pieces
}
