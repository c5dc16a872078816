//! Dead letters: the ledger keeps their evidence, and their messages lie in a queue of their own, where other programs see them.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::*;

use super::Inner;
use super::counts::Tally;
use super::groups::membership;
use super::ledger::{DATA_BYTES_MAX, Versioned, put_dead, put_key, put_record};
use super::message::{Incoming, Outgoing};
use super::queue::StageQueue;
use super::record::LedgerRecord;
use super::table::{Guard, Written};

/// `provision aws` lets SQS make dead letters after this many receives. With fewer, good jobs may be among them.
pub(super) const RECEIVES_MIN: u64 = 10;

/// How long dead letters are hidden while their queue is looked through.
const LOOK_VISIBILITY: Span = Span::from_secs(30);

/// How many receives one look through a queue of dead letters takes at most.
const RECEIVES_MAX: usize = 150;

/// The dead letter of a message that is not JSON, or not a job for another reason.
pub(super) fn unreadable(
    id: JobId,
    message: &Incoming,
    stage: &Name,
    why: &str,
    now: Timestamp,
) -> LedgerRecord {
    // As a JSON string, so that it can be shown, exported and edited like any data.
    let text = serde_json::Value::String(message.body.clone()).to_string();
    let mut record = LedgerRecord::of(message.job_with(id, stage, &text, now));
    record.claimed_at = now;
    record.count(&Attempt::new(Cause::Failure, "the message is not a job").detail(why), now);
    (record.job.state, record.job.due_at, record.unsent) = (State::Dead, now, true);
    record
}

/// The outcome of a message in a queue of dead letters.
enum Settled {
    /// It stays there.
    Kept,
    /// It is not needed there.
    Gone,
    /// Its job was sent to its stage again.
    Redriven,
}

impl Inner {
    /// Sends a dead letter to its queue, unless it is there. The record says so afterwards.
    pub(super) async fn send_dead(
        &self,
        queues: &StageQueue,
        known: &Versioned,
        body: &str,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        if known.record.job.state != State::Dead || !known.record.unsent {
            return Ok(());
        }
        queues.dead.send(vec![Outgoing::of_dead(&known.record, body, now)]).await?;
        let number = known.record.job.claim_number;
        let sent = |record: &mut LedgerRecord| {
            let same = record.job.state == State::Dead && record.job.claim_number == number && record.unsent;
            same.then(|| record.unsent = false)
        };
        self.update(known.clone(), &[], sent).await.map(drop)
    }

    /// Looks through the queue of dead letters. Messages whose job is not dead any more are deleted, those in `redriven` are
    /// sent back to their stage with their own body, and those of other programs become dead letters of the ledger. How many were
    /// redriven.
    pub(super) async fn look_through_dead(
        &self,
        queues: &StageQueue,
        redriven: &HashSet<JobId>,
        now: Timestamp,
    ) -> Result<u64, EngineError> {
        let (mut kept, mut changed) = (Vec::new(), 0);
        // One message stands for a dead letter, also if it was sent twice.
        let mut kept_of: HashMap<Option<JobId>, String> = HashMap::new();
        for _ in 0..RECEIVES_MAX {
            let messages = queues.dead.receive(10, LOOK_VISIBILITY, Span::ZERO).await?;
            if messages.is_empty() {
                break;
            }
            for message in messages {
                let message = self.read_foreign_job(&queues.stage, message, now);
                match self.settle_dead(queues, &message, redriven, now).await? {
                    Settled::Kept if message.is_dead_letter => {
                        let first = kept_of.entry(message.id).or_insert_with(|| message.of.id.clone());
                        match *first == message.of.id {
                            true => kept.push(message.of.receipt),
                            false => queues.dead.delete(&message.of.receipt).await,
                        }
                    }
                    Settled::Kept => kept.push(message.of.receipt),
                    Settled::Gone => queues.dead.delete(&message.of.receipt).await,
                    Settled::Redriven => {
                        changed += 1;
                        queues.dead.delete(&message.of.receipt).await;
                    }
                }
            }
        }
        join_all(kept.iter().map(|receipt| queues.dead.hide(receipt, 0))).await;
        Ok(changed)
    }

    /// Decides about one message of the queue of dead letters.
    async fn settle_dead(
        &self,
        queues: &StageQueue,
        message: &Incoming,
        redriven: &HashSet<JobId>,
        now: Timestamp,
    ) -> Result<Settled, EngineError> {
        let known = match message.id {
            Some(id) => self.table().await?.record(&queues.queue.name, id).await?,
            None => self.find_key(&queues.stage, &message.key).await?,
        };
        let known = match known {
            Some(known) => known,
            None => self.adopt(queues, message, now).await?,
        };
        let record = &known.record;
        if record.job.state != State::Dead {
            return self.settle_not_dead(queues, message, record, now).await;
        }
        if redriven.contains(&record.job.id) {
            queues.queue.send(vec![Outgoing::redriving(record, &message.body, now)]).await?;
            let changed = self.update(known, &[], |record| redrive(record, now)).await?.is_some();
            return Ok(if changed { Settled::Redriven } else { Settled::Gone });
        }
        if message.is_dead_letter && message.redrives == Some(record.job.claim_number) {
            return Ok(Settled::Kept);
        }
        // A message of an earlier death, whose job was redriven and has died again. Or one that another program, or SQS itself,
        // has put there: ours takes its place, so that tools that move it back redrive the job.
        self.send_dead(queues, &known, &message.body, now).await?;
        Ok(Settled::Gone)
    }

    /// A message in the queue of dead letters whose job is not dead: it was redriven or dropped, or SQS itself has moved a message
    /// that was received often. The job of such a message would wait for ever, so it gets a new one.
    async fn settle_not_dead(
        &self,
        queues: &StageQueue,
        message: &Incoming,
        record: &LedgerRecord,
        now: Timestamp,
    ) -> Result<Settled, EngineError> {
        let is_of_claim = record.message.as_ref().is_some_and(|of| of.id == message.of.id);
        let moved_by_sqs = !message.is_dead_letter || is_of_claim;
        match record.job.state {
            State::Running if record.job.due_at > now && moved_by_sqs => return Ok(Settled::Kept),
            State::Ready | State::Delayed | State::Running if moved_by_sqs => {
                tracing::warn!(
                    queue = queues.queue.name,
                    job = %record.job.id,
                    "SQS made a dead letter of a message that was received often; its job is not dead and gets a new message"
                );
                queues.queue.send(vec![Outgoing::with_body(record, &message.body, now)]).await?;
                self.ready(&queues.stage, 1);
            }
            // Its process may have died before it sent what follows from it.
            State::Done | State::Cancelled => self.complete(record, now).await?,
            _ => {}
        }
        Ok(Settled::Gone)
    }

    /// Makes a dead letter of a message that another program, or SQS itself, has put into the queue of dead letters. Its record.
    async fn adopt(
        &self,
        queues: &StageQueue,
        message: &Incoming,
        now: Timestamp,
    ) -> Result<Versioned, EngineError> {
        let stage = &queues.stage;
        self.know_stage(stage).await?;
        let id = match message.id {
            Some(id) => id,
            None => JobId::new(self.new_ids(1).await?.start),
        };
        let mut record = match message.job(id, stage, now) {
            Ok(job) => {
                let mut record = LedgerRecord::of(job);
                let why = "another program, or the queue's redrive policy, made it a dead letter";
                record.count(&Attempt::new(Cause::Crash, why), now);
                (record.job.state, record.job.due_at) = (State::Dead, now);
                record
            }
            Err(why) => unreadable(id, message, stage, &why, now),
        };
        record.unsent = true;
        record.data_in_message = record.job.data.len() > DATA_BYTES_MAX;
        let queue = &queues.queue.name;
        let mut writes = vec![
            put_key(queue, &message.key, id, Guard::Absent),
            put_record(queue, &record, 0, None)?,
            put_dead(queue, id),
        ];
        let mut tally = Tally::default();
        tally.count(stage, Kind::Enqueued, 1);
        tally.count(stage, Kind::Jobs(State::Dead), 1);
        writes.extend(membership(None, &record));
        writes.extend(tally.write());
        let written = self.table().await?.write(writes).await?;
        self.counts.changed();
        match written {
            Written::Yes => Ok(Versioned { record, version: 1 }),
            // Another process was faster.
            Written::Lost(lost) => self.lost_first(queue, lost).await,
        }
    }

    /// Sends dead letters to their stage again. Their message comes first and names their last claim, so that it redrives the
    /// job also if this process dies before it has written the ledger.
    pub(super) async fn redrive(
        &self,
        stage: &Name,
        dead: Vec<Versioned>,
        now: Timestamp,
    ) -> Result<u64, EngineError> {
        let queues = self.queues(stage).await?;
        let (only_message, here): (Vec<_>, Vec<_>) =
            dead.into_iter().partition(|known| known.record.data_in_message);
        let messages =
            here.iter().map(|known| Outgoing::redriving(&known.record, &known.record.job.data, now));
        queues.queue.send(messages.collect()).await?;
        let mut changed = 0;
        for known in here {
            changed += u64::from(self.update(known, &[], |record| redrive(record, now)).await?.is_some());
        }
        self.ready(stage, changed);
        let only_message: HashSet<JobId> = only_message.iter().map(|known| known.record.job.id).collect();
        match only_message.is_empty() {
            true => Ok(changed),
            false => Ok(changed + self.look_through_dead(&queues, &only_message, now).await?),
        }
    }
}

fn redrive(record: &mut LedgerRecord, now: Timestamp) -> Option<()> {
    (record.job.state == State::Dead).then(|| record.change(Change::Redrive, now))
}
