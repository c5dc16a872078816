//! Jobs that move to another stage: to other queues, under new numbers.
//!
//! One transaction cancels the old record and writes the new one, so a job is never in both stages or in none. The new one
//! needs no message then: it is held, and the release of held jobs sends messages before it changes them. A process that dies
//! in between leaves held jobs that any worker's look at them releases. Old messages find a cancelled job and are deleted.

use std::collections::HashMap;

use tollway_core::{Name, Timestamp};
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::*;

use super::Inner;
use super::counts::Tally;
use super::groups::{groups_of, membership};
use super::ledger::{Versioned, delete_dead, item_of, put_dead, put_key, put_record, read_id};
use super::record::LedgerRecord;
use super::table::{Guard, Write, Written};

/// A job that can move, and its record in the new stage.
struct Moving {
    old: Versioned,
    new: LedgerRecord,
}

/// The outcome of a job.
enum Outcome {
    Moved(Box<Versioned>),
    /// The new stage knows its key.
    Known,
    /// Another process has changed it: it waits no more, or a later step finds it.
    Changed,
}

impl Inner {
    pub(super) async fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<StageMove, EngineError> {
        self.know_stage(to).await?;
        let filter = Filter { stage: Some(from.clone()), ..Filter::default() };
        let page = self.scan(&filter, after, limit, |record| record.may_move(now)).await?;
        let found = self.finished_outputs(page.items).await?;
        let keys = found.iter().map(|known| (to, known.record.job.key.as_str()));
        let taken = self.known_keys(keys, now).await?;
        let ids = self.new_ids(found.len()).await?;
        let mut answer = StageMove { next: page.next, ..StageMove::default() };
        let mut arrived = Vec::new();
        for ((old, taken), id) in found.into_iter().zip(taken).zip(ids.map(JobId::new)) {
            let key = old.record.job.key.clone();
            let moving = Moving { new: in_stage(&old.record, to, id, now), old };
            let outcome = match self.is_taken(to, taken).await? {
                true => Outcome::Known,
                false => self.move_one(moving, now).await?,
            };
            match outcome {
                Outcome::Known => answer.known.push(key),
                Outcome::Changed => {}
                Outcome::Moved(new) => {
                    answer.jobs += 1;
                    arrived.push(*new);
                }
            }
        }
        self.settle_moved(to, arrived, now).await?;
        // Once, at the end: queues can only be looked through from their start.
        if answer.next.is_none() {
            self.delete_left_messages(from).await?;
            self.clean_dead_queues(now).await?;
        }
        Ok(answer)
    }

    /// Leaves out what a job has written to hand on without being done yet.
    async fn finished_outputs(&self, found: Vec<Versioned>) -> Result<Vec<Versioned>, EngineError> {
        let mut done: HashMap<JobId, bool> = HashMap::new();
        let mut finished = Vec::with_capacity(found.len());
        for known in found {
            let id = known.record.job.id;
            if known.record.data_in_message {
                let message = format!("job {id} has more data than the ledger keeps: let it finish here");
                return Err(EngineError::caller(message));
            }
            if let Some(parent) = known.record.parent.filter(|_| known.version == 1) {
                let is_done = match done.get(&parent) {
                    Some(is_done) => *is_done,
                    None => {
                        let parent = self.find(parent).await?;
                        parent.is_none_or(|parent| parent.record.job.state == State::Done)
                    }
                };
                done.insert(parent, is_done);
                if !is_done {
                    continue;
                }
            }
            finished.push(known);
        }
        Ok(finished)
    }

    /// Whether a key is taken in the new stage. What is left there of a job that had moved away itself is forgotten.
    async fn is_taken(&self, stage: &Name, known: Option<Versioned>) -> Result<bool, EngineError> {
        Ok(match known {
            None => false,
            Some(known) if !known.record.moved_to_stage() => true,
            Some(known) => !self.forget(&self.queue_name(stage)?, &known).await?,
        })
    }

    async fn move_one(&self, moving: Moving, now: Timestamp) -> Result<Outcome, EngineError> {
        let Moving { old, new } = moving;
        let (from, to) = (&old.record.job.stage, &new.job.stage);
        let (old_queue, new_queue) = (self.queue_name(from)?, self.queue_name(to)?);
        let left = old.record.clone().left_for(to, now);
        let mut writes = vec![
            put_key(&new_queue, &new.job.key, new.job.id, Guard::Absent),
            put_record(&old_queue, &left, old.version, self.expires(from, now))?,
            Write::Put(item_of(&new_queue, &new, 1, None)?, Guard::Absent),
        ];
        if new.job.state == State::Dead {
            writes.extend([delete_dead(&old_queue, left.job.id), put_dead(&new_queue, new.job.id)]);
        }
        writes.extend(membership(Some(&old.record), &left));
        writes.extend(membership(None, &new));
        let mut tally = Tally::default();
        tally.moved(from, old.record.job.state, State::Cancelled);
        tally.count(to, Kind::Enqueued, 1);
        tally.count(to, Kind::Jobs(new.job.state), 1);
        writes.extend(tally.write());
        match self.table().await?.write(writes).await? {
            Written::Yes => {
                self.counts.changed();
                Ok(Outcome::Moved(Box::new(Versioned { record: new, version: 1 })))
            }
            Written::Lost(lost) => {
                let key_taken = |(index, item): &(usize, Option<_>)| {
                    *index == 0 && item.as_ref().and_then(read_id).is_some()
                };
                Ok(if lost.iter().any(key_taken) { Outcome::Known } else { Outcome::Changed })
            }
        }
    }

    /// Sends the messages of jobs that have moved. Those whose stage waits for their group stay held.
    async fn settle_moved(
        &self,
        to: &Name,
        arrived: Vec<Versioned>,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let queues = self.queues(to).await?;
        let groups = groups_of(arrived.iter().map(|known| &known.record.job));
        let (dead, held): (Vec<_>, Vec<_>) =
            arrived.into_iter().partition(|known| known.record.job.state == State::Dead);
        for known in &dead {
            self.send_dead(&queues, known, &known.record.job.data, now).await?;
        }
        let mut free = Vec::with_capacity(held.len());
        for known in held {
            if !self.is_held_back(&known.record).await? {
                free.push(known);
            }
        }
        self.release_held(to, free, now).await?;
        self.release_groups(groups, now).await
    }
}

/// The record of a job in its new stage: a dead letter whose message is not sent yet, or held.
fn in_stage(old: &LedgerRecord, to: &Name, id: JobId, now: Timestamp) -> LedgerRecord {
    let mut new = LedgerRecord::of_moved(id, &old.job, &old.evidence, now);
    to.clone_into(&mut new.job.stage);
    new.job.created_at = old.job.created_at;
    new.unsent = new.job.state == State::Dead;
    if !new.unsent {
        new.job.state = State::Held;
    }
    new
}
