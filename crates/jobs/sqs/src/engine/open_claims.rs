//! Open claims: renewed, given back, and abandoned.

use futures_util::{StreamExt, stream};
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::engine::transition::JobCall;
use tollway_pipeline::*;

use super::claim::WRITES_AT_A_TIME;
use super::message::{Outgoing, seconds_until};
use super::record::LedgerRecord;
use super::{Inner, lock};

impl Inner {
    pub(super) async fn renew(
        &self,
        claims: Vec<Claim>,
        visibility: Span,
        now: Timestamp,
    ) -> Result<Vec<bool>, EngineError> {
        let renew = |claim: Claim| async move {
            let renewed = self.change_claim(&claim, &[], |record| {
                let renew = JobCall::Renew { visibility };
                if record.is_open(&claim) { record.apply(renew, now) } else { None }
            });
            let Some(((), versioned)) = renewed.await? else { return Ok(false) };
            self.due(&claim.stage, versioned.record.job.due_at, claim.job);
            let receipt = versioned.record.message.as_ref().map(|message| message.receipt.clone());
            lock(&self.claims).insert((claim.stage.clone(), claim.job), versioned);
            if let Some(receipt) = receipt {
                let seconds = seconds_until(now.plus(visibility), now);
                self.queues(&claim.stage).await?.queue.hide(&receipt, seconds).await?;
            }
            Ok(true)
        };
        let answers: Vec<_> =
            stream::iter(claims.into_iter().map(renew)).buffered(WRITES_AT_A_TIME).collect().await;
        answers.into_iter().collect()
    }

    pub(super) async fn release(&self, claims: Vec<Claim>, now: Timestamp) -> Result<Vec<bool>, EngineError> {
        let release = |claim: Claim| async move {
            let released = self.change_claim(&claim, &[], |record| {
                if record.is_open(&claim) { record.apply(JobCall::Release, now) } else { None }
            });
            let Some(((), versioned)) = released.await? else { return Ok(false) };
            self.forget_claim(&claim);
            self.deliver_again(versioned.record.receipt(), now);
            self.claim_ended(claim.job, now);
            self.show(&claim.stage, &versioned.record, 0).await?;
            self.ready(&claim.stage, 1);
            Ok(true)
        };
        let answers: Vec<_> =
            stream::iter(claims.into_iter().map(release)).buffered(WRITES_AT_A_TIME).collect().await;
        answers.into_iter().collect()
    }

    /// Hides the message of a record for so many seconds; 0: it is visible at once.
    pub(super) async fn show(
        &self,
        stage: &Name,
        record: &LedgerRecord,
        seconds: i32,
    ) -> Result<(), EngineError> {
        match &record.message {
            Some(message) => self.queues(stage).await?.queue.hide(&message.receipt, seconds).await,
            None => Ok(()),
        }
    }

    /// Offers the job of a dead process at once. Its message may have been received and hidden since by another process, under
    /// another receipt than the ledger's, so it gets a new one; the old one is recognised as a duplicate.
    async fn offer_again(
        &self,
        stage: &Name,
        record: &LedgerRecord,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        if record.data_in_message {
            return self.show(stage, record, 0).await;
        }
        let queues = self.queues(stage).await?;
        queues.queue.send(vec![Outgoing::of(record, now)]).await
    }

    pub(super) async fn abandon(&self, worker: Option<&str>, now: Timestamp) -> Result<u64, EngineError> {
        let runs = |record: &LedgerRecord| {
            record.job.state == State::Running
                && record.job.due_at > now
                // This process may have claimed jobs under the same name since.
                && record.claimed_at <= now
                && worker.is_none_or(|worker| record.job.worker == worker)
        };
        let (mut abandoned, mut after) = (0, None);
        loop {
            let filter = Filter { state: Some(State::Running), ..Filter::default() };
            let page = self.scan(&filter, after, bounds::PAGE_MAX, runs).await?;
            for found in page.items {
                let stage = found.record.job.stage.clone();
                let changed = self.update(found, &[], |record| {
                    if runs(record) { record.apply(JobCall::Abandon, now) } else { None }
                });
                let changed = changed.await?;
                if let Some(((), versioned)) = changed {
                    abandoned += 1;
                    self.offer_again(&stage, &versioned.record, now).await?;
                    self.due(&stage, now, versioned.record.job.id);
                }
            }
            after = page.next;
            if after.is_none() {
                self.hint();
                return Ok(abandoned);
            }
        }
    }
}
