//! The end of a claim: done with outputs, again, or dead.
//!
//! Done is one transaction: the job is done, and its outputs are jobs of the ledger. Then their messages are sent, and the job's
//! own message is deleted last. If the process dies in between, that message comes again, and the outputs that no worker has
//! seen are sent then.

use std::collections::HashSet;
use std::sync::Arc;

use tollway_core::{Name, Retry, Timestamp};

use super::claim::ATTEMPTS;
use super::counts::Tally;
use super::error::storage;
use super::ledger::{
    DATA_BYTES_MAX, RESULT_BYTES_MAX, Versioned, item_of, job_key, put_key, put_record, read_id, read_record,
};
use super::message::{Outgoing, seconds_until};
use super::record::Record;
use super::table::{Guard, Item, WRITE_MAX, Write, Written};
use super::{Inner, lock};
use crate::engine::checks::{check_output_key, within};
use crate::engine::counters::Kind;
use crate::*;

/// How many outputs are written together: each is two items, beside the record of the job and counters.
const OUTPUTS_AT_ONCE: usize = (WRITE_MAX - 2) / 2;

/// How many bytes of data are written together: a transaction has at most 4 MB.
const BYTES_AT_ONCE: usize = 3 << 20;

/// An output on its way into the ledger.
struct Handed {
    index: usize,
    record: Record,
    join: bool,
}

/// What stood in the way of a transaction.
enum Obstacle {
    /// Another process has written the job.
    Job(Box<Option<Versioned>>),
    /// A key is taken: the output's index, and the job that has it.
    Key(usize, JobId),
}

impl Inner {
    pub(super) async fn finish(
        self: Arc<Self>,
        claim: Claim,
        conclusion: Conclusion,
        now: Timestamp,
    ) -> Result<Finished, EngineError> {
        match conclusion {
            Conclusion::Done { outputs, result } => self.done(claim, outputs, result, now).await,
            Conclusion::Again { at, attempt } => self.again(claim, at, &attempt, now).await,
            Conclusion::Dead { attempt } => self.dead(claim, &attempt, now).await,
        }
    }

    /// The claim is not open: this call was committed before, or the answer is late.
    async fn not_open(&self, claim: &Claim, record: Option<&Record>) -> Finished {
        if record.is_some_and(|record| record.was_concluded(claim)) {
            return Finished::Repeated;
        }
        self.count(&claim.stage, Kind::Late).await;
        Finished::Late
    }

    async fn again(
        &self,
        claim: Claim,
        at: Timestamp,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Result<Finished, EngineError> {
        let state = super::record::waiting(at, now);
        let ended = self.end_claim(&claim, attempt, state, at, now).await?;
        let Some(versioned) = ended else { return self.answer_not_open(&claim).await };
        self.show(&claim.stage, &versioned.record, seconds_until(at, now)).await?;
        match state {
            State::Delayed => self.due(&claim.stage, at, claim.job),
            _ => self.ready(&claim.stage, 1),
        }
        Ok(Finished::Committed { outputs: 0, joined: 0 })
    }

    async fn dead(&self, claim: Claim, attempt: &Attempt, now: Timestamp) -> Result<Finished, EngineError> {
        let ended = self.end_claim(&claim, attempt, State::Dead, now, now).await?;
        let Some(versioned) = ended else { return self.answer_not_open(&claim).await };
        let queues = self.queues(&claim.stage).await?;
        // Only the message has data that is too large for the ledger: it is sent when the message comes again.
        let here = !versioned.record.data_in_message;
        if here && let Err(error) = self.send_dead(&queues, &versioned, &versioned.record.job.data, now).await
        {
            tracing::warn!(%error, %claim, "a dead letter is not in its queue yet; it is sent when its message comes again");
            return Ok(Finished::Committed { outputs: 0, joined: 0 });
        }
        if let Some(message) = &versioned.record.message {
            match here {
                true => queues.queue.delete(&message.receipt).await,
                false => queues.queue.hide(&message.receipt, 0).await?,
            }
        }
        Ok(Finished::Committed { outputs: 0, joined: 0 })
    }

    /// Ends a claim that did not finish its job. None: it is not open.
    async fn end_claim(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        state: State,
        due_at: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Versioned>, EngineError> {
        let events = [Kind::Attempts(attempt.cause())];
        let ended = self.change_claim(claim, &events, |record| {
            record.is_open(claim).then(|| {
                record.count(attempt, now);
                record.end(state, due_at, now);
                record.unsent = state == State::Dead;
            })
        });
        let ended = ended.await?.map(|((), versioned)| versioned);
        lock(&self.claims).remove(&(claim.stage.clone(), claim.job));
        Ok(ended)
    }

    async fn answer_not_open(&self, claim: &Claim) -> Result<Finished, EngineError> {
        let found = self.table().await?.record(&self.queue_name(&claim.stage)?, claim.job).await?;
        Ok(self.not_open(claim, found.as_ref().map(|found| &found.record)).await)
    }

    async fn done(
        self: Arc<Self>,
        claim: Claim,
        outputs: Vec<Output>,
        result: Option<String>,
        now: Timestamp,
    ) -> Result<Finished, EngineError> {
        within("bytes of a result", result.as_ref().map_or(0, String::len), RESULT_BYTES_MAX)?;
        for output in &outputs {
            within("bytes of an output", output.data.len(), DATA_BYTES_MAX)?;
            refuse_cost(&output.cost)?;
            self.know_stage(&output.stage).await?;
        }
        let Some(mut known) = self.record_of_claim(&claim).await? else {
            return Ok(self.not_open(&claim, None).await);
        };
        let ids = self.new_ids(outputs.len()).await?;
        let mut handed = self.handed(&claim, &known.record, &outputs, ids.start, now)?;
        // Outputs of one answer may join each other.
        let mut keys = HashSet::new();
        handed.retain(|one| keys.insert((one.record.job.stage.clone(), one.record.job.key.clone())));
        let mut joined = outputs.len() - handed.len();
        for _ in 0..ATTEMPTS + handed.len() as u32 {
            if !known.record.is_open(&claim) {
                lock(&self.claims).remove(&(claim.stage.clone(), claim.job));
                return Ok(self.not_open(&claim, Some(&known.record)).await);
            }
            match self.commit(&known, &handed, outputs.len(), result.clone(), now).await? {
                Ok(record) => {
                    lock(&self.claims).remove(&(claim.stage.clone(), claim.job));
                    self.counts.changed();
                    let answer = Finished::Committed { outputs: handed.len(), joined };
                    let records = handed.into_iter().map(|one| one.record).collect();
                    self.follow_up(record, records, now).await;
                    return Ok(answer);
                }
                Err(Obstacle::Job(newer)) => match *newer {
                    Some(newer) => known = newer,
                    None => return Ok(self.not_open(&claim, None).await),
                },
                Err(Obstacle::Key(at, other)) => {
                    joined += usize::from(resolve(&claim, &mut handed, at, other)?);
                }
            }
        }
        Err(storage(Retry::Safe, "the ledger's record of a job is being written by others; try again"))
    }

    /// The records of outputs.
    fn handed(
        &self,
        claim: &Claim,
        parent: &Record,
        outputs: &[Output],
        first: u64,
        now: Timestamp,
    ) -> Result<Vec<Handed>, EngineError> {
        let hand = |(index, output): (usize, &Output)| {
            let key = output.join.clone().unwrap_or_else(|| claim.output_key(&parent.job.key, index));
            check_output_key(&key, index)?;
            let job = NewJob {
                stage: output.stage.clone(),
                key,
                group: output.group.clone().or_else(|| parent.job.group.clone()),
                data: output.data.clone(),
                priority: parent.job.priority,
                cost: JobCost::OF_STAGE,
                not_before: Timestamp::EPOCH,
            };
            let mut record = Record::new(JobId::new(first + index as u64), job, now);
            record.parent = Some(claim.job);
            Ok(Handed { index, record, join: output.join.is_some() })
        };
        outputs.iter().enumerate().map(hand).collect()
    }

    /// Writes the job as done, and its outputs. Many outputs go before, in pieces: without a message they are no jobs yet.
    async fn commit(
        &self,
        known: &Versioned,
        handed: &[Handed],
        outputs: usize,
        result: Option<String>,
        now: Timestamp,
    ) -> Result<Result<Record, Obstacle>, EngineError> {
        let stage = &known.record.job.stage;
        let queue = self.queue_name(stage)?;
        let mut record = known.record.clone();
        record.end(State::Done, now, now);
        (record.result, record.outputs_count) = (result, outputs as u64);
        record.outputs = runs(handed);
        let pieces = pieces(handed);
        let (last, before) = pieces.split_last().map_or((&[][..], &[][..]), |(last, before)| (*last, before));
        for piece in before {
            if let Some(obstacle) = self.write_piece(known, Vec::new(), piece).await? {
                return Ok(Err(obstacle));
            }
        }
        let put = put_record(&queue, &record, known.version, self.expires(stage, now))?;
        let mut writes = vec![put];
        writes.extend(tally(&known.record, handed).write());
        Ok(self.write_piece(known, writes, last).await?.map_or(Ok(record), Err))
    }

    async fn write_piece(
        &self,
        known: &Versioned,
        mut writes: Vec<Write>,
        piece: &[Handed],
    ) -> Result<Option<Obstacle>, EngineError> {
        let parent = known.record.job.id;
        if writes.is_empty() {
            // The fence: a late worker must not touch what the newest one has handed on.
            let key = job_key(&self.queue_name(&known.record.job.stage)?, parent);
            writes.push(Write::Check(key, Guard::Version(known.version)));
        }
        let first = writes.len();
        for one in piece {
            let queue = self.queue_name(&one.record.job.stage)?;
            let guard = if one.join { Guard::Absent } else { Guard::AbsentOrOf(parent.get()) };
            writes.push(put_key(&queue, &one.record.job.key, one.record.job.id, guard));
            writes.push(Write::Put(item_of(&queue, &one.record, 1, None)?, Guard::AbsentOrOf(parent.get())));
        }
        let Written::Lost(lost) = self.table().await?.write(writes).await? else { return Ok(None) };
        let Some((index, item)) = lost.into_iter().next() else { return Ok(None) };
        if index < first {
            return Ok(Some(Obstacle::Job(Box::new(item.as_ref().map(read_record).transpose()?))));
        }
        let output = &piece[(index - first) / 2];
        let other = item.as_ref().and_then(read_id);
        Ok(Some(Obstacle::Key(output.index, other.unwrap_or(output.record.job.id))))
    }

    /// Sends the outputs of a done job, and then deletes its message. The caller need not wait: until the message is deleted, it
    /// comes again, and whatever is missing is sent then.
    async fn follow_up(self: Arc<Self>, done: Record, outputs: Vec<Record>, now: Timestamp) {
        let mut sends = Vec::new();
        for (stage, messages) in by_stage(&outputs, now) {
            match self.queues(&stage).await {
                Ok(queues) => {
                    let jobs = messages.len() as u64;
                    let sent = queues.queue.send_later(messages).await;
                    self.ready(&stage, jobs);
                    sends.push((queues, sent));
                }
                Err(error) => {
                    tracing::warn!(%error, "outputs are not sent yet; they are when their job's message comes again");
                    return;
                }
            }
        }
        let inner = self.clone();
        let mut follow_ups = lock(&self.follow_ups);
        while follow_ups.try_join_next().is_some() {}
        follow_ups.spawn(async move {
            for (queues, sent) in sends {
                if let Err(error) = sent.sent(false, &queues.queue).await {
                    tracing::warn!(%error, "outputs are not sent yet; they are when their job's message comes again");
                    return;
                }
            }
            if let (Some(message), Ok(queues)) = (&done.message, inner.queues(&done.job.stage).await) {
                queues.queue.delete(&message.receipt).await;
            }
        });
    }

    /// Sends the outputs of a done job that no worker has seen: its process may have died before it sent them.
    pub(super) async fn resend_outputs(&self, done: &Record, now: Timestamp) -> Result<(), EngineError> {
        for (stage, first, count) in &done.outputs {
            let queue = self.queue_name(stage)?;
            let keys: Vec<_> = (*first..first + count).map(|id| job_key(&queue, JobId::new(id))).collect();
            let items: Vec<Item> = self.table().await?.get_many(&keys).await?.into_iter().flatten().collect();
            let mut messages = Vec::new();
            for item in &items {
                let found = read_record(item)?;
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
        Ok(())
    }
}

fn tally(parent: &Record, handed: &[Handed]) -> Tally {
    let mut tally = Tally::default();
    tally.moved(&parent.job.stage, parent.job.state, State::Done);
    tally.count(&parent.job.stage, Kind::Completed, 1);
    for one in handed {
        tally.count(&one.record.job.stage, Kind::Enqueued, 1);
        tally.count(&one.record.job.stage, Kind::Jobs(State::Ready), 1);
    }
    tally
}

/// Jobs of SQS have the cost of their stage: a message cannot be asked for by its cost.
pub(super) fn refuse_cost(cost: &JobCost) -> Result<(), EngineError> {
    match *cost == JobCost::OF_STAGE {
        true => Ok(()),
        false => Err(EngineError::unsupported(
            "an engine on SQS",
            "keep a cost of its own for a job: set the stage's `take`, or use sqlite: or postgres:",
        )),
    }
}

/// An output's key is taken. True: the output joins the job that has it.
fn resolve(claim: &Claim, handed: &mut Vec<Handed>, index: usize, other: JobId) -> Result<bool, EngineError> {
    let Some(at) = handed.iter().position(|one| one.index == index) else { return Ok(false) };
    let one = &mut handed[at];
    if one.join {
        handed.remove(at);
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
fn runs(handed: &[Handed]) -> Vec<(Name, u64, u64)> {
    let mut runs: Vec<(Name, u64, u64)> = Vec::new();
    for one in handed {
        let (stage, id) = (&one.record.job.stage, one.record.job.id.get());
        match runs.last_mut() {
            Some((known, first, count)) if known == stage && *first + *count == id => *count += 1,
            _ => runs.push((stage.clone(), id, 1)),
        }
    }
    runs
}

/// Outputs in pieces that fit a transaction.
fn pieces(handed: &[Handed]) -> Vec<&[Handed]> {
    let mut pieces = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, one) in handed.iter().enumerate() {
        let more = one.record.job.data.len();
        if index - start >= OUTPUTS_AT_ONCE || index > start && bytes + more > BYTES_AT_ONCE {
            pieces.push(&handed[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += more;
    }
    if start < handed.len() {
        pieces.push(&handed[start..]);
    }
    pieces
}

/// The messages of records, by their stage.
fn by_stage(records: &[Record], now: Timestamp) -> Vec<(Name, Vec<Outgoing>)> {
    let mut stages: Vec<(Name, Vec<Outgoing>)> = Vec::new();
    for record in records {
        let message = Outgoing::of(record, now);
        match stages.iter_mut().find(|(stage, _)| *stage == record.job.stage) {
            Some((_, messages)) => messages.push(message),
            None => stages.push((record.job.stage.clone(), vec![message])),
        }
    }
    stages
}
