//! What a done job hands on.
//!
//! The job and its outputs are written in one transaction. Many outputs do not fit: then most of them are written before, in
//! pieces, after the job's record has noted their ids. They have no message, so no worker gets them. If the job is not done
//! after all, its next claim deletes them.

use std::collections::HashSet;
use std::sync::Arc;

use tollway_core::{Name, Timestamp};
use tollway_pipeline::engine::checks::{check_output_key, within};
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::engine::transition::JobCall;
use tollway_pipeline::*;

use super::counts::Tally;
use super::groups::{groups_of, hold_by, membership};
use super::ledger::{Versioned, item_of, job_key, key_key, put_key, put_record, read_id, read_record};
use super::message::Outgoing;
use super::queue::{Sends, StageQueue};
use super::record::LedgerRecord;
use super::table::{Guard, Item, WRITE_MAX, Write, Written};
use super::{Inner, lock};

/// How many outputs are written together: each is up to three items, beside the record of the job, its group and counters.
const OUTPUTS_AT_ONCE: usize = (WRITE_MAX - 3) / 3;

/// How many bytes of data are written together: a transaction has at most 4 MB.
const BYTES_AT_ONCE: usize = 3 << 20;

/// How many outputs are deleted together.
const DELETES_AT_ONCE: usize = WRITE_MAX / 3;

/// An output on its way into the ledger.
pub(super) struct OutputRecord {
    /// Its place in the answer.
    index: usize,
    pub(super) record: LedgerRecord,
    join: bool,
    /// It is written together with the job itself: it may join a job of another process, or be released before the job is done.
    last: bool,
}

/// What stood in the way of a transaction.
pub(super) enum Obstacle {
    /// Another process has written the job.
    Job(Box<Option<Versioned>>),
    /// A key is taken: the output's index, and the job that has it.
    Key(usize, JobId),
}

impl Inner {
    /// The records of outputs, without those that join another one of the same answer.
    pub(super) async fn output_records(
        &self,
        claim: &Claim,
        parent: &LedgerRecord,
        outputs: &[Output],
        now: Timestamp,
    ) -> Result<Vec<OutputRecord>, EngineError> {
        let gates = self.gates().await?;
        let (mut records, mut keys) = (Vec::with_capacity(outputs.len()), HashSet::new());
        for (index, output) in outputs.iter().enumerate() {
            let key = output.joined_key();
            let key = key.map_or_else(|| claim.output_key(&parent.job.key, index), str::to_owned);
            check_output_key(&key, index)?;
            if !keys.insert((output.stage().clone(), key.clone())) {
                continue;
            }
            let job = output.job(key, parent.job.group.as_ref(), parent.job.priority);
            let mut record = LedgerRecord::new(claim.job, job, now);
            record.parent = Some(claim.job);
            hold_by(&gates, &mut record);
            let join = output.joined_key().is_some();
            let last = join || record.job.state == State::Held && !holds(&gates, parent, &record);
            records.push(OutputRecord { index, record, join, last });
        }
        let last = || records.iter().filter(|one| one.last);
        let bytes = last().map(|one| one.record.job.data.len()).sum();
        within(
            "outputs that may join another job, or wait for another group",
            last().count(),
            OUTPUTS_AT_ONCE,
        )?;
        within("bytes of outputs that may join another job", bytes, BYTES_AT_ONCE)?;
        // By stage, so that the ids of each are in one piece.
        records.sort_by(|one, other| {
            (one.last, &one.record.job.stage).cmp(&(other.last, &other.record.job.stage))
        });
        let ids = self.new_ids(records.len()).await?;
        records.iter_mut().zip(ids).for_each(|(one, id)| one.record.job.id = JobId::new(id));
        Ok(records)
    }

    /// Writes the job as done, and its outputs.
    pub(super) async fn commit(
        &self,
        known: &Versioned,
        outputs: &[OutputRecord],
        outputs_count: usize,
        result: Option<String>,
        now: Timestamp,
    ) -> Result<Result<LedgerRecord, Obstacle>, EngineError> {
        let stage = &known.record.job.stage;
        let queue = self.queue_name(stage)?;
        let mut record = known.record.clone();
        record.conclude(JobCall::Done, now);
        (record.result, record.outputs_count) = (result, outputs_count as u64);
        (record.outputs, record.unfinished) = (runs(outputs), Vec::new());
        let pieces = pieces(outputs);
        let (last, before) = pieces.split_last().map_or((&[][..], &[][..]), |(last, before)| (*last, before));
        for piece in before {
            if let Some(obstacle) = self.write_piece(known, Vec::new(), piece).await? {
                return Ok(Err(obstacle));
            }
        }
        let put = put_record(&queue, &record, known.version, self.expires(stage, now))?;
        let mut writes = vec![put];
        writes.extend(membership(Some(&known.record), &record));
        writes.extend(tally(&known.record, outputs).write());
        Ok(self.write_piece(known, writes, last).await?.map_or(Ok(record), Err))
    }

    async fn write_piece(
        &self,
        known: &Versioned,
        mut writes: Vec<Write>,
        piece: &[OutputRecord],
    ) -> Result<Option<Obstacle>, EngineError> {
        let parent = known.record.job.id;
        if writes.is_empty() {
            // The fence: a late worker must not touch what the newest one has handed on.
            let key = job_key(&self.queue_name(&known.record.job.stage)?, parent);
            writes.push(Write::Check(key, Guard::Version(known.version)));
        }
        let mut owners: Vec<Option<&OutputRecord>> = vec![None; writes.len()];
        for one in piece {
            let queue = self.queue_name(&one.record.job.stage)?;
            let guard = if one.join { Guard::Absent } else { Guard::AbsentOrOf(parent.get()) };
            writes.push(put_key(&queue, &one.record.job.key, one.record.job.id, guard));
            writes.push(Write::Put(item_of(&queue, &one.record, 1, None)?, Guard::AbsentOrOf(parent.get())));
            writes.extend(membership(None, &one.record));
            owners.resize(writes.len(), Some(one));
        }
        let Written::Lost(lost) = self.table().await?.write(writes).await? else { return Ok(None) };
        let Some((index, item)) = lost.into_iter().next() else { return Ok(None) };
        let Some(output) = owners.get(index).copied().flatten() else {
            return Ok(Some(Obstacle::Job(Box::new(item.as_ref().map(read_record).transpose()?))));
        };
        let other = item.as_ref().and_then(read_id);
        Ok(Some(Obstacle::Key(output.index, other.unwrap_or(output.record.job.id))))
    }

    /// Notes the ids of outputs in the record of their job, if they do not fit one transaction. Outputs of an earlier attempt that
    /// failed half way are deleted first. None: the claim is not open.
    pub(super) async fn note_unfinished(
        &self,
        claim: &Claim,
        known: Versioned,
        outputs: &[OutputRecord],
        now: Timestamp,
    ) -> Result<Option<Versioned>, EngineError> {
        let new = if pieces(outputs).len() > 1 { runs(outputs) } else { Vec::new() };
        let old = known.record.unfinished.clone();
        let mut noted = Some(known);
        if !old.is_empty() {
            // A new version: writes of the earlier attempt that are still on their way fail from now on.
            let both = [&old[..], &new[..]].concat();
            noted = self.note(claim, noted, both).await?;
            if let Some(known) = &noted {
                self.delete_unfinished(&LedgerRecord { unfinished: old, ..known.record.clone() }, now)
                    .await?;
            }
        }
        match noted {
            Some(known) if known.record.unfinished != new => self.note(claim, Some(known), new).await,
            noted => Ok(noted),
        }
    }

    async fn note(
        &self,
        claim: &Claim,
        known: Option<Versioned>,
        ids: Vec<(Name, u64, u64)>,
    ) -> Result<Option<Versioned>, EngineError> {
        let Some(known) = known else { return Ok(None) };
        let noted = self
            .update(known, &[], |record| record.is_open(claim).then(|| record.unfinished.clone_from(&ids)));
        let noted = noted.await?.map(|((), versioned)| versioned);
        if let Some(versioned) = &noted {
            lock(&self.claims).insert((claim.stage.clone(), claim.job), versioned.clone());
        }
        Ok(noted)
    }

    /// Deletes outputs that a job wrote without being done. Its record was written since, so no late worker adds any.
    pub(super) async fn delete_unfinished(
        &self,
        record: &LedgerRecord,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let mut left = Vec::new();
        for (stage, first, count) in &record.unfinished {
            let queue = self.queue_name(stage)?;
            let keys: Vec<_> = (*first..first + count).map(|id| job_key(&queue, JobId::new(id))).collect();
            for item in self.table().await?.get_many(&keys).await?.into_iter().flatten() {
                let output = read_record(&item)?;
                if output.version == 1 && output.record.parent == Some(record.job.id) {
                    left.push((queue.clone(), output.record));
                }
            }
        }
        for outputs in left.chunks(DELETES_AT_ONCE) {
            let mut writes = Vec::new();
            for (queue, output) in outputs {
                let mine = Guard::AbsentOrOf(record.job.id.get());
                writes.push(Write::Delete(job_key(queue, output.job.id), mine.clone()));
                writes.push(Write::Delete(key_key(queue, &output.job.key), mine));
                let mut gone = output.clone();
                gone.job.state = State::Cancelled;
                writes.extend(membership(Some(output), &gone));
            }
            self.table().await?.write(writes).await?;
        }
        self.release_groups(groups_of(left.iter().map(|(_, output)| &output.job)), now).await
    }

    /// Sends the outputs of a done job, looks at its group, and then deletes its message. The caller need not wait for the
    /// deletion: until then the message comes again, and whatever is missing is sent then.
    pub(super) async fn follow_up(
        self: Arc<Self>,
        done: LedgerRecord,
        outputs: Vec<LedgerRecord>,
        now: Timestamp,
    ) {
        let sends = match self.begin_follow_up(&done, &outputs, now).await {
            Ok(sends) => sends,
            Err(error) => return not_sent_yet(&error),
        };
        let inner = self.clone();
        let mut follow_ups = lock(&self.follow_ups);
        while follow_ups.try_join_next().is_some() {}
        follow_ups.spawn(async move {
            for (queues, sent, jobs) in sends {
                if let Err(error) = sent.sent(false, &queues.queue).await {
                    return not_sent_yet(&error);
                }
                // Not before: a receive for a message that waits for others would find nothing.
                inner.ready(&queues.stage, jobs);
            }
            if let (Some(message), Ok(queues)) = (&done.message, inner.queues(&done.job.stage).await) {
                queues.queue.delete(&message.receipt).await;
            }
            if let Some(delivered) = &inner.delivered {
                delivered.job_done(done.job.id);
            }
        });
    }

    async fn begin_follow_up(
        &self,
        done: &LedgerRecord,
        outputs: &[LedgerRecord],
        now: Timestamp,
    ) -> Result<Vec<(Arc<StageQueue>, Sends, u64)>, EngineError> {
        let mut sends = Vec::new();
        for (stage, messages) in by_stage(outputs, now) {
            let queues = self.queues(&stage).await?;
            let jobs = messages.len() as u64;
            let sent = queues.queue.send_later(messages).await;
            sends.push((queues, sent, jobs));
        }
        let jobs = outputs.iter().chain([done]).map(|record| &record.job);
        self.release_groups(groups_of(jobs), now).await?;
        Ok(sends)
    }

    /// Sends the outputs of a done job that no worker has seen, and looks at its group: its process may have died before.
    pub(super) async fn complete(&self, done: &LedgerRecord, now: Timestamp) -> Result<(), EngineError> {
        let mut groups = groups_of([&done.job]);
        for (stage, first, count) in &done.outputs {
            let queue = self.queue_name(stage)?;
            let keys: Vec<_> = (*first..first + count).map(|id| job_key(&queue, JobId::new(id))).collect();
            let items: Vec<Item> = self.table().await?.get_many(&keys).await?.into_iter().flatten().collect();
            let mut messages = Vec::new();
            for item in &items {
                let found = read_record(item)?;
                groups.extend(groups_of([&found.record.job]));
                if found.version == 1 && found.record.job.state == State::Ready {
                    messages.push(Outgoing::of(&found.record, now));
                }
            }
            if !messages.is_empty() {
                let jobs = messages.len() as u64;
                self.queues(stage).await?.queue.send(messages).await?;
                self.ready(stage, jobs);
            }
        }
        self.release_groups(groups, now).await
    }
}

/// Whether a job keeps the group of its output in a stage for which the output waits.
fn holds(gates: &[StageSettings], parent: &LedgerRecord, output: &LedgerRecord) -> bool {
    let gate = gates.iter().find(|gate| gate.stage == output.job.stage);
    parent.job.group == output.job.group && gate.is_some_and(|gate| gate.after.contains(&parent.job.stage))
}

fn not_sent_yet(error: &EngineError) {
    tracing::warn!(%error, "outputs are not sent yet; they are when their job's message comes again");
}

fn tally(parent: &LedgerRecord, outputs: &[OutputRecord]) -> Tally {
    let mut tally = Tally::default();
    tally.moved(&parent.job.stage, parent.job.state, State::Done);
    tally.count(&parent.job.stage, Kind::Completed, 1);
    for one in outputs {
        tally.count(&one.record.job.stage, Kind::Enqueued, 1);
        tally.count(&one.record.job.stage, Kind::Jobs(one.record.job.state), 1);
    }
    tally
}

/// An output's key is taken. True: the output joins the job that has it.
pub(super) fn resolve(
    claim: &Claim,
    outputs: &mut Vec<OutputRecord>,
    index: usize,
    other: JobId,
) -> Result<bool, EngineError> {
    let Some(at) = outputs.iter().position(|one| one.index == index) else { return Ok(false) };
    let one = &mut outputs[at];
    if one.join {
        outputs.remove(at);
        return Ok(true);
    }
    let again = claim.output_key_again(&one.record.job.key);
    let suffix = claim.output_key_again("");
    if other < claim.job && !one.record.job.key.ends_with(&suffix) {
        check_output_key(&again, index)?;
        one.record.job.key = again;
        return Ok(false);
    }
    let (stage, key) = (one.record.job.stage.as_str(), &one.record.job.key);
    let message = format!("output {index} would be {key:?} in stage {stage}, which is job {other} already");
    Err(EngineError::caller(message))
}

/// Ids of outputs as stage, first id and how many.
fn runs(outputs: &[OutputRecord]) -> Vec<(Name, u64, u64)> {
    let mut runs: Vec<(Name, u64, u64)> = Vec::new();
    for one in outputs {
        let (stage, id) = (&one.record.job.stage, one.record.job.id.get());
        match runs.last_mut() {
            Some((known, first, count)) if known == stage && *first + *count == id => *count += 1,
            _ => runs.push((stage.clone(), id, 1)),
        }
    }
    runs
}

/// Outputs in pieces that fit a transaction. The last piece has all that must be in it.
fn pieces(outputs: &[OutputRecord]) -> Vec<&[OutputRecord]> {
    let mut pieces = Vec::new();
    let (mut end, mut bytes) = (outputs.len(), 0);
    for (index, one) in outputs.iter().enumerate().rev() {
        let more = one.record.job.data.len();
        if end - index > OUTPUTS_AT_ONCE || index + 1 < end && bytes + more > BYTES_AT_ONCE {
            pieces.push(&outputs[index + 1..end]);
            (end, bytes) = (index + 1, 0);
        }
        bytes += more;
    }
    if end > 0 {
        pieces.push(&outputs[..end]);
    }
    pieces.reverse();
    pieces
}

/// The messages of records that wait for a worker, by their stage.
fn by_stage(records: &[LedgerRecord], now: Timestamp) -> Vec<(Name, Vec<Outgoing>)> {
    let mut stages: Vec<(Name, Vec<Outgoing>)> = Vec::new();
    for record in records.iter().filter(|record| record.job.state != State::Held) {
        let message = Outgoing::of(record, now);
        match stages.iter_mut().find(|(stage, _)| *stage == record.job.stage) {
            Some((_, messages)) => messages.push(message),
            None => stages.push((record.job.stage.clone(), vec![message])),
        }
    }
    stages
}
