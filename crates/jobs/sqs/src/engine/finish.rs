//! The end of a claim: done with outputs, again, or dead.
//!
//! Done is one transaction: the job is done, and its outputs are jobs of the ledger. Then their messages are sent, and the job's
//! own message is deleted last. If the process dies in between, that message comes again, and what is missing is done then.

use std::sync::Arc;

use tollway_core::{Retry, Timestamp};
use tollway_pipeline::engine::checks::within;
use tollway_pipeline::engine::counters::Kind;
use tollway_pipeline::engine::transition::JobCall;
use tollway_pipeline::*;

use super::Inner;
use super::claim::ATTEMPTS;
use super::error::storage;
use super::hand_off::{Obstacle, resolve};
use super::ledger::{DATA_BYTES_MAX, RESULT_BYTES_MAX, Versioned};
use super::message::seconds_until;
use super::record::LedgerRecord;

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
    async fn not_open(&self, claim: &Claim, record: Option<&LedgerRecord>) -> Finished {
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
        let ended = self.end_claim(&claim, attempt, JobCall::Again { at, attempt }, now).await?;
        let Some(versioned) = ended else { return self.answer_not_open(&claim).await };
        self.deliver_again(versioned.record.receipt(), at);
        self.claim_ended(claim.job, now);
        self.show(&claim.stage, &versioned.record, seconds_until(at, now)).await?;
        match versioned.record.job.state {
            State::Delayed => self.due(&claim.stage, at, claim.job),
            _ => self.ready(&claim.stage, 1),
        }
        Ok(Finished::Committed { outputs: 0, joined: 0 })
    }

    async fn dead(&self, claim: Claim, attempt: &Attempt, now: Timestamp) -> Result<Finished, EngineError> {
        let ended = self.end_claim(&claim, attempt, JobCall::Bury { attempt }, now).await?;
        let Some(versioned) = ended else { return self.answer_not_open(&claim).await };
        self.claim_ended(claim.job, now);
        let queues = self.queues(&claim.stage).await?;
        // Only the message has data that is too large for the ledger: it is sent when the message comes again.
        let here = !versioned.record.data_in_message;
        if here && let Err(error) = self.send_dead(&queues, &versioned, &versioned.record.job.data, now).await
        {
            tracing::warn!(%error, %claim, "a dead letter is not in its queue yet; it is sent when its message comes again");
            self.deliver_again(versioned.record.receipt(), now);
            return Ok(Finished::Committed { outputs: 0, joined: 0 });
        }
        if let Some(message) = &versioned.record.message {
            match here {
                true => queues.queue.delete(&message.receipt).await,
                false => {
                    self.deliver_again(Some(&message.receipt), now);
                    queues.queue.hide(&message.receipt, 0).await?;
                }
            }
        }
        Ok(Finished::Committed { outputs: 0, joined: 0 })
    }

    /// Ends a claim that did not finish its job. None: it is not open.
    async fn end_claim(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        call: JobCall<'_>,
        now: Timestamp,
    ) -> Result<Option<Versioned>, EngineError> {
        let events = [Kind::Attempts(attempt.cause())];
        let ended = self.change_claim(claim, &events, |record| {
            if record.is_open(claim) { record.conclude(call, now) } else { None }
        });
        let ended = ended.await?.map(|((), versioned)| versioned);
        self.forget_claim(claim);
        Ok(ended)
    }

    async fn answer_not_open(&self, claim: &Claim) -> Result<Finished, EngineError> {
        self.forget_claim(claim);
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
            within("bytes of an output", output.data().len(), DATA_BYTES_MAX)?;
            refuse_cost(output.own_cost())?;
            self.know_stage(output.stage()).await?;
        }
        let Some(mut known) = self.record_of_claim(&claim).await? else {
            return Ok(self.not_open(&claim, None).await);
        };
        let mut records = self.output_records(&claim, &known.record, &outputs, now).await?;
        let mut joined = outputs.len() - records.len();
        match self.note_unfinished(&claim, known, &records, now).await? {
            Some(noted) => known = noted,
            None => return self.answer_not_open(&claim).await,
        }
        for _ in 0..ATTEMPTS + records.len() as u32 {
            if !known.record.is_open(&claim) {
                self.forget_claim(&claim);
                return Ok(self.not_open(&claim, Some(&known.record)).await);
            }
            match self.commit(&known, &records, outputs.len(), result.clone(), now).await? {
                Ok(record) => {
                    self.forget_claim(&claim);
                    self.counts.changed();
                    let answer = Finished::Committed { outputs: records.len(), joined };
                    let records = records.into_iter().map(|one| one.record).collect();
                    self.follow_up(record, records, now).await;
                    return Ok(answer);
                }
                Err(Obstacle::Job(newer)) => match *newer {
                    Some(newer) => known = newer,
                    None => return self.answer_not_open(&claim).await,
                },
                Err(Obstacle::Key(at, other)) => {
                    joined += usize::from(resolve(&claim, &mut records, at, other)?);
                }
            }
        }
        Err(storage(Retry::Safe, "the ledger's record of a job is being written by others; try again"))
    }
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
