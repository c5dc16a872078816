//! From messages to claims: what a worker gets, keeps, and gives back.

use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tollway_core::{Name, Retry, Span, Timestamp};
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::*;

use super::counts::Tally;
use super::delivered::Claiming;
use super::error::storage;
use super::groups::membership;
use super::ledger::{
    DATA_BYTES_MAX, Versioned, delete_dead, job_key, key_key, put_dead, put_key, put_record, read_id,
    read_record,
};
use super::message::{Incoming, seconds_until};
use super::outlook::{AHEAD_MAX, AHEAD_VISIBILITY};
use super::queue::StageQueue;
use super::record::{LedgerRecord, Unclaimable};
use super::table::{Guard, PART, SORT, Write, Written, read_text};
use super::{Inner, lock};

/// How often a write is repeated that another process was first with.
pub(super) const ATTEMPTS: u32 = 20;

/// How many records are written at a time.
pub(super) const WRITES_AT_A_TIME: usize = 16;

/// How long the message of a held job is hidden.
const HELD_HIDDEN_SECONDS: i32 = 60;

/// The outcome of one message.
enum Offer {
    Claimed(Box<Claimed>),
    /// Not claimable; the message was hidden or deleted.
    No,
}

impl Inner {
    pub(super) async fn peek(self: &Arc<Self>, stage: &Name, now: Timestamp) -> Result<Peek, EngineError> {
        let paused = self.is_paused(stage).await?;
        if let Some(delivered) = &self.delivered {
            let (ready, next_at) = delivered.peek(stage, now);
            let cost = (ready > 0).then_some(JobCost::OF_STAGE);
            return Ok(Peek { cost, next_at, paused, ready: Some(ready) });
        }
        let (cost, next_at, ready, back) = {
            let mut outlooks = lock(&self.outlooks);
            let outlook = outlooks.entry(stage.clone()).or_default();
            let back = outlook.given_back(now);
            let (maybe, next_at) = outlook.peek(now);
            let cost = maybe.then_some(JobCost::OF_STAGE);
            (cost, next_at, outlook.about_ready(), back)
        };
        self.give_back(stage, back).await?;
        Ok(Peek { cost, next_at, paused, ready: Some(ready) })
    }

    /// Shows messages again that were received ahead.
    pub(super) async fn give_back(&self, stage: &Name, messages: Vec<Incoming>) -> Result<(), EngineError> {
        if messages.is_empty() {
            return Ok(());
        }
        let queues = self.queues(stage).await?;
        join_all(messages.iter().map(|message| queues.queue.hide(&message.of.receipt, 0))).await;
        Ok(())
    }

    pub(super) async fn claim(
        self: &Arc<Self>,
        request: ClaimRequest,
        now: Timestamp,
    ) -> Result<Vec<Claimed>, EngineError> {
        if request.wanted_cost().is_some_and(|cost| *cost != JobCost::OF_STAGE)
            || self.is_paused(request.stage()).await?
        {
            return Ok(Vec::new());
        }
        self.clients.check_clock(request.visibility())?;
        let queues = self.queues(request.stage()).await?;
        let _claiming = self.delivered.as_ref().map(Claiming::begin);
        let mut claimed: Vec<Claimed> = Vec::new();
        while claimed.len() < request.jobs_max() {
            match self.claim_some(&queues, request.jobs_max() - claimed.len(), &request, now).await {
                Ok(Some(more)) => claimed.extend(more),
                Ok(None) => break,
                Err(error) if claimed.is_empty() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "some messages could not be claimed; they come again");
                    return Ok(claimed);
                }
            }
        }
        if claimed.len() < request.jobs_max() {
            self.watch(request.stage());
        }
        Ok(claimed)
    }

    /// Claims jobs of one receive. None: there is no message.
    async fn claim_some(
        &self,
        queues: &StageQueue,
        wanted: usize,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Vec<Claimed>>, EngineError> {
        let messages = self.messages(queues, wanted, request.visibility(), now).await?;
        if messages.is_empty() {
            return Ok(None);
        }
        let receipts: Vec<String> = messages.iter().map(|message| message.of.receipt.clone()).collect();
        let offered = self.offer_all(queues, messages, request, now).await;
        if offered.is_err() {
            self.retry_delivered(&receipts, now);
        }
        offered.map(Some)
    }

    /// Messages for this many workers: those received ahead, and otherwise one receive.
    async fn messages(
        &self,
        queues: &StageQueue,
        wanted: usize,
        visibility: Span,
        now: Timestamp,
    ) -> Result<Vec<Incoming>, EngineError> {
        let stage = &queues.stage;
        if let Some(delivered) = &self.delivered {
            return Ok(delivered.take(stage, wanted, now));
        }
        let (ahead, count, asks) = {
            let mut outlooks = lock(&self.outlooks);
            let outlook = outlooks.entry(stage.clone()).or_default();
            outlook.visibility = visibility.min(AHEAD_VISIBILITY);
            outlook.looked_at = outlook.looked_at.max(now);
            let ahead: Vec<Incoming> = std::iter::from_fn(|| outlook.next_ahead(now)).take(wanted).collect();
            (ahead, outlook.receive_count(wanted, now), outlook.may_ask(now))
        };
        if !ahead.is_empty() || !asks {
            return Ok(ahead);
        }
        // What is received for no worker yet comes back soon if this process dies.
        let visibility = if count > wanted { visibility.min(AHEAD_VISIBILITY) } else { visibility };
        let mut messages = queues.queue.receive(count, visibility, Span::ZERO).await?;
        let mut outlooks = lock(&self.outlooks);
        let outlook = outlooks.entry(stage.clone()).or_default();
        outlook.received(count.min(AHEAD_MAX), messages.len(), now);
        for message in messages.drain(wanted.min(messages.len())..) {
            outlook.keep(message, now);
        }
        Ok(messages)
    }

    async fn offer_all(
        &self,
        queues: &StageQueue,
        messages: Vec<Incoming>,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Vec<Claimed>, EngineError> {
        let messages = self.read_foreign(queues, messages, now).await;
        let known = self.records_of(queues, &messages).await?;
        let offers = messages.into_iter().zip(known).map(|(message, known)| {
            let receipt = message.of.receipt.clone();
            // Boxed, because they are large.
            let offered = Box::pin(self.offer(queues, message, known, request, now));
            async move { (receipt, offered.await) }
        });
        let mut offers = stream::iter(offers).buffered(WRITES_AT_A_TIME);
        let (mut claimed, mut failed) = (Vec::new(), None);
        while let Some((receipt, offer)) = offers.next().await {
            match offer {
                Ok(Offer::Claimed(one)) => claimed.push(*one),
                Ok(Offer::No) => {}
                Err(error) => {
                    self.retry_delivered(&[receipt], now);
                    failed = Some(error);
                }
            }
        }
        match failed {
            // What was claimed is worked on; the other messages come again.
            Some(error) if claimed.is_empty() => Err(error),
            Some(error) => {
                tracing::warn!(%error, "a message could not be claimed; it comes again");
                Ok(claimed)
            }
            None => Ok(claimed),
        }
    }

    /// The records of messages, in their order.
    async fn records_of(
        &self,
        queues: &StageQueue,
        messages: &[Incoming],
    ) -> Result<Vec<Option<Versioned>>, EngineError> {
        let (table, queue) = (self.table().await?, &queues.queue.name);
        let foreign: Vec<_> = messages
            .iter()
            .filter(|message| message.id.is_none())
            .map(|message| key_key(queue, &message.key))
            .collect();
        let mut foreign = table.get_many(&foreign).await?.into_iter();
        let ids: Vec<Option<JobId>> = messages
            .iter()
            .map(|message| message.id.or_else(|| foreign.next().flatten().as_ref().and_then(read_id)))
            .collect();
        let keys: Vec<_> = ids.iter().flatten().map(|id| job_key(queue, *id)).collect();
        let mut items = table.get_many(&keys).await?.into_iter();
        ids.into_iter()
            .map(|id| id.and_then(|_| items.next().flatten()).as_ref().map(read_record).transpose())
            .collect()
    }

    /// Claims the job of a message, if the ledger allows it.
    async fn offer(
        &self,
        queues: &StageQueue,
        message: Incoming,
        mut known: Option<Versioned>,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Offer, EngineError> {
        for _ in 0..ATTEMPTS {
            let Some(versioned) = known.take() else {
                match Box::pin(self.first_claim(queues, &message, request, now)).await? {
                    Ok(offer) => return Ok(offer),
                    // Another process was faster, or the key belongs to another job.
                    Err(other) => known = Some(other),
                }
                continue;
            };
            if versioned.record.job.id != message.id.unwrap_or(versioned.record.job.id) {
                self.duplicate(queues, &message).await;
                return Ok(Offer::No);
            }
            match versioned.record.claimable(&message, now) {
                Ok(()) => {}
                Err(Unclaimable::Held) if !self.is_held_back(&versioned.record).await? => {
                    let id = versioned.record.job.id;
                    self.release_one(versioned, now).await?;
                    known = self.table().await?.record(&queues.queue.name, id).await?;
                    continue;
                }
                Err(why) => {
                    Box::pin(self.decline(queues, &message, &versioned, why, now)).await?;
                    return Ok(Offer::No);
                }
            }
            match self.claim_record(queues, &message, versioned, request, now).await? {
                Ok(claimed) => return Ok(Offer::Claimed(Box::new(claimed))),
                Err(newer) => known = newer,
            }
        }
        Err(storage(Retry::Safe, "the ledger's record of a job is being written by others; try again"))
    }

    /// Claims a job that the ledger knows. Otherwise, the record that another process wrote.
    async fn claim_record(
        &self,
        queues: &StageQueue,
        message: &Incoming,
        seen: Versioned,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Result<Claimed, Option<Versioned>>, EngineError> {
        let (queue, stage) = (&queues.queue.name, &queues.stage);
        let mut record = seen.record.clone();
        let from = record.job.state;
        let taken_over = record.claim(request.worker(), message.of.clone(), request.visibility(), now);
        let mut tally = Tally::default();
        tally.moved(stage, from, State::Running);
        tally.count(stage, Kind::Claimed, 1);
        if taken_over {
            tally.count(stage, Kind::Attempts(Cause::Crash), 1);
        }
        let mut writes = vec![put_record(queue, &record, seen.version, None)?];
        if from == State::Dead {
            writes.push(delete_dead(queue, record.job.id));
        }
        writes.extend(tally.write());
        match self.table().await?.write(writes).await? {
            Written::Yes => self.counts.changed(),
            Written::Lost(lost) => {
                let newer = lost.into_iter().find(|(index, _)| *index == 0).and_then(|(_, item)| item);
                return Ok(Err(newer.as_ref().map(read_record).transpose()?));
            }
        }
        if record.data_in_message {
            message.body.clone_into(&mut record.job.data);
        }
        if !record.unfinished.is_empty() {
            // The ledger keeps the note until this claim writes again, so a process that dies here leaves none behind.
            match self.delete_unfinished(&record, now).await {
                Ok(()) => record.unfinished.clear(),
                Err(error) => tracing::warn!(%error, "outputs of an earlier claim are not deleted yet"),
            }
        }
        Ok(Ok(self.claimed(stage, Versioned { record, version: seen.version + 1 })))
    }

    /// Remembers a claim of this process.
    fn claimed(&self, stage: &Name, versioned: Versioned) -> Claimed {
        let job = versioned.record.job.clone();
        self.due(stage, job.due_at, job.id);
        lock(&self.claims).insert((stage.clone(), job.id), versioned);
        let claim = Claim { job: job.id, stage: stage.clone(), number: job.claim_number };
        Claimed { claim, expires_at: job.due_at, job }
    }

    /// Claims a job that the ledger does not know: another program sent it, or its sender has not written the ledger yet.
    /// Otherwise, the record that is there.
    async fn first_claim(
        &self,
        queues: &StageQueue,
        message: &Incoming,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Result<Offer, Versioned>, EngineError> {
        let (queue, stage) = (&queues.queue.name, &queues.stage);
        self.know_stage(stage).await?;
        let id = match message.id {
            Some(id) => id,
            None => JobId::new(self.new_ids(1).await?.start),
        };
        let brought = message.job(id, stage, now);
        let mut record = match &brought {
            Ok(job) => LedgerRecord::of(job.clone()),
            Err(why) => super::dead::unreadable(id, message, stage, why, now),
        };
        record.parent = message.parent;
        record.data_in_message = record.job.data.len() > DATA_BYTES_MAX;
        self.hold(&mut record).await?;
        if record.data_in_message && record.job.state == State::Held {
            // A held job needs no message, but only the message has this data.
            let why = format!("its stage waits for its group, and it has more than {DATA_BYTES_MAX} bytes");
            record = super::dead::unreadable(id, message, stage, &why, now);
            record.data_in_message = true;
        }
        let claimable = record.claimable(message, now).is_ok();
        if claimable {
            record.claim(request.worker(), message.of.clone(), request.visibility(), now);
        }
        let key = put_key(queue, &message.key, id, Guard::Absent);
        let mut writes = vec![key, put_record(queue, &record, 0, None)?];
        if record.job.state == State::Dead {
            writes.push(put_dead(queue, id));
        }
        // Its sender, if it is one of ours, finds the record and counts nothing.
        let mut tally = Tally::default();
        tally.count(stage, Kind::Enqueued, 1);
        tally.count(stage, Kind::Jobs(record.job.state), 1);
        tally.count(stage, Kind::Claimed, i64::from(claimable));
        writes.extend(membership(None, &record));
        writes.extend(tally.write());
        if let Written::Lost(lost) = self.table().await?.write(writes).await? {
            return self.lost_first(queue, lost).await.map(Err);
        }
        self.counts.changed();
        let versioned = Versioned { record, version: 1 };
        if versioned.record.job.state == State::Held {
            return Ok(Err(versioned));
        }
        if !claimable {
            let why = versioned.record.claimable(message, now).err().unwrap_or(Unclaimable::Dead);
            Box::pin(self.decline(queues, message, &versioned, why, now)).await?;
            return Ok(Ok(Offer::No));
        }
        Ok(Ok(Offer::Claimed(Box::new(self.claimed(stage, versioned)))))
    }

    /// The record that was in the way of a first claim.
    pub(super) async fn lost_first(
        &self,
        queue: &str,
        lost: Vec<(usize, Option<super::table::Item>)>,
    ) -> Result<Versioned, EngineError> {
        let gone =
            || storage(Retry::Safe, "a record of the ledger was purged while its message came; try again");
        for (index, item) in &lost {
            let Some(item) = item else { continue };
            if *index == 1 {
                return read_record(item);
            }
            let id = read_id(item).ok_or_else(gone)?;
            if let Some(found) = self.table().await?.record(queue, id).await? {
                return Ok(found);
            }
            // DynamoDB deleted the record when its time was over; the key is free again.
            let (part, sort) = (read_text(item, PART), read_text(item, SORT));
            if let (Some(part), Some(sort)) = (part, sort) {
                let key = (part.to_owned(), sort.to_owned());
                self.table().await?.write(vec![Write::Delete(key, Guard::Any)]).await?;
            }
        }
        Err(gone())
    }

    /// Deletes or hides a message whose job cannot be claimed.
    async fn decline(
        &self,
        queues: &StageQueue,
        message: &Incoming,
        known: &Versioned,
        why: Unclaimable,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        match why {
            Unclaimable::Until(at) => {
                if known.record.open && known.record.message.as_ref().is_some_and(|of| of.id != message.of.id)
                {
                    self.count(&queues.stage, Kind::Duplicates).await;
                }
                self.due(&queues.stage, at, known.record.job.id);
                if let Some(delivered) = &self.delivered {
                    delivered.wait_behind(&message.of.receipt, known.record.job.id, at);
                }
                queues.queue.hide(&message.of.receipt, seconds_until(at, now).max(1)).await
            }
            // The process that releases the job has sent this message, and is about to write that the job is ready.
            Unclaimable::Held if message.id.is_some() => {
                queues.queue.hide(&message.of.receipt, HELD_HIDDEN_SECONDS).await
            }
            Unclaimable::Held => {
                queues.queue.delete(&message.of.receipt).await;
                Ok(())
            }
            Unclaimable::Left => {
                // Another message than that of the last claim has nothing to complete: that one is deleted when all is sent.
                if known.record.message.as_ref().is_none_or(|of| of.id == message.of.id) {
                    self.complete(&known.record, now).await?;
                }
                self.duplicate(queues, message).await;
                Ok(())
            }
            Unclaimable::Dead => {
                self.send_dead(queues, known, &message.body, now).await?;
                self.duplicate(queues, message).await;
                Ok(())
            }
        }
    }

    async fn duplicate(&self, queues: &StageQueue, message: &Incoming) {
        self.count(&queues.stage, Kind::Duplicates).await;
        queues.queue.delete(&message.of.receipt).await;
    }
}
