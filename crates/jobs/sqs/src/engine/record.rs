//! What the ledger knows of a job, and how a claim, its end and operators change it. No I/O: callers write a changed
//! record on the condition that no other process has written it.

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::bounds::EVIDENCE_MAX;
use tollway_pipeline::engine::transition::{JobCall, Lifecycle, Transition, transition};
use tollway_pipeline::{
    Attempt, Cause, Change, Claim, Edit, Edited, Evidence, Job, JobId, MOVED_MARK, MOVING_MARK, NewJob, State,
};

use super::message::Incoming;

/// How many bytes of evidence fit beside the data: an item of DynamoDB has at most 400 KB.
const EVIDENCE_BYTES_MAX: usize = 120_000;

/// How the mark begins of a job that another stage has, in place of its error.
const MOVED_TO_STAGE: &str = "tollway migrate: moved to stage ";

/// When to look again at the message of a job that comes back from another engine.
const BACK_WITHIN: Span = Span::from_secs(2);

/// A job with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LedgerRecord {
    pub(super) job: Job,
    /// The newest claim has not ended.
    pub(super) open: bool,
    /// The newest claim ended with a conclusion.
    pub(super) concluded: bool,
    pub(super) claimed_at: Timestamp,
    pub(super) evidence: Vec<Evidence>,
    /// The message of the newest claim.
    pub(super) message: Option<MessageOf>,
    /// The data is too large for the ledger: only the message has it.
    pub(super) data_in_message: bool,
    /// The job that handed it on.
    pub(super) parent: Option<JobId>,
    /// What it handed on: stage, first id, how many.
    pub(super) outputs: Vec<(Name, u64, u64)>,
    /// What it has written to hand on without being done yet, in the same form.
    #[serde(default)]
    pub(super) unfinished: Vec<(Name, u64, u64)>,
    /// How many outputs it had, those that joined another job included.
    pub(super) outputs_count: u64,
    pub(super) result: Option<String>,
    /// A dead letter whose message may not be in its queue yet.
    pub(super) unsent: bool,
}

/// The message under which a job was claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MessageOf {
    pub(super) id: String,
    pub(super) receipt: String,
}

/// What to do with a message whose job cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclaimable {
    /// It is not due, or another worker has it: the message is hidden until then.
    Until(Timestamp),
    /// Its job has left: the message is a duplicate. What its job handed on may not be sent yet.
    Left,
    /// Its job is a dead letter.
    Dead,
    /// Its job waits for its group. The release sends another message.
    Held,
}

impl LedgerRecord {
    /// A job that was just enqueued.
    pub(super) fn new(id: JobId, job: NewJob, now: Timestamp) -> Self {
        Self::of(job.into_job(id, now))
    }

    /// A job that comes from another engine or stage.
    pub(super) fn of_moved(id: JobId, from: &Job, evidence: &[Evidence], now: Timestamp) -> Self {
        let mut record = Self::new(id, NewJob::of_moved(from), now);
        record.apply(JobCall::Import { from, held: false }, now);
        record.job.error.clone_from(&from.error);
        record.evidence = evidence.to_vec();
        record
    }

    /// A job that the ledger does not know yet.
    pub(super) fn of(job: Job) -> Self {
        Self {
            job,
            open: false,
            concluded: false,
            claimed_at: Timestamp::EPOCH,
            evidence: Vec::new(),
            message: None,
            data_in_message: false,
            parent: None,
            outputs: Vec::new(),
            unfinished: Vec::new(),
            outputs_count: 0,
            result: None,
            unsent: false,
        }
    }

    /// Whether its message can be claimed now. A dead letter is redriven by a message that names its last claim.
    pub(super) fn claimable(&self, message: &Incoming, now: Timestamp) -> Result<(), Unclaimable> {
        match self.job.state {
            State::Ready => Ok(()),
            State::Delayed | State::Running if self.job.due_at <= now => Ok(()),
            State::Delayed | State::Running => Err(Unclaimable::Until(self.job.due_at)),
            State::Dead if message.redrives == Some(self.job.claim_number) => Ok(()),
            State::Dead => Err(Unclaimable::Dead),
            State::Held => Err(Unclaimable::Held),
            // It comes back from another engine, and its record is about to say so.
            State::Cancelled
                if self.job.error.starts_with(MOVED_MARK)
                    && message.created_at.is_some_and(|created| created > self.job.changed_at) =>
            {
                Err(Unclaimable::Until(now.plus(BACK_WITHIN)))
            }
            State::Done | State::Cancelled => Err(Unclaimable::Left),
        }
    }

    /// Whether a message is left of this job, which was cancelled or has moved. A job that is about to come back needs its own.
    pub(super) fn has_left_behind(&self, message: &Incoming) -> bool {
        self.job.state == State::Cancelled
            && self.claimable(message, Timestamp::EPOCH) == Err(Unclaimable::Left)
    }

    /// Claims it. The caller has seen that it is claimable. Whether a claim was taken over.
    pub(super) fn claim(
        &mut self,
        worker: &str,
        message: MessageOf,
        visibility: Span,
        now: Timestamp,
    ) -> bool {
        let taken_over = self.open;
        self.apply(JobCall::Due, now);
        if self.job.state == State::Dead {
            self.change(Change::Redrive, now);
        }
        self.apply(JobCall::Claim { visibility }, now);
        (self.concluded, self.claimed_at) = (false, now);
        self.message = Some(message);
        worker.clone_into(&mut self.job.worker);
        taken_over
    }

    /// The receipt of the message under which it was last claimed.
    pub(super) fn receipt(&self) -> Option<&str> {
        self.message.as_ref().map(|message| message.receipt.as_str())
    }

    /// Where the job is in its life.
    fn life(&self) -> Lifecycle {
        Lifecycle::of(&self.job, self.open)
    }

    /// Applies a call. None: it does not apply.
    pub(super) fn apply(&mut self, call: JobCall<'_>, now: Timestamp) -> Option<()> {
        let Transition { after, attempt, .. } = transition(&self.life(), call, now)?;
        if let Some(attempt) = attempt {
            self.keep(&attempt, now);
        }
        self.live_on(after);
        Some(())
    }

    fn live_on(&mut self, after: Lifecycle) {
        let job = &mut self.job;
        (job.state, self.open, job.claim_number, job.priority) =
            (after.state, after.open, after.claim_number, after.priority);
        (job.due_at, job.changed_at) = (after.due_at, after.changed_at);
        (job.failures, job.crashes, job.rate_limited) = (after.failures, after.crashes, after.rate_limited);
    }

    /// Counts an attempt that another program has made of the job.
    pub(super) fn count(&mut self, attempt: &Attempt, now: Timestamp) {
        let mut life = self.life();
        life.count(attempt.cause());
        self.live_on(life);
        self.keep(attempt, now);
    }

    /// Keeps the evidence of an attempt of the newest claim.
    fn keep(&mut self, attempt: &Attempt, now: Timestamp) {
        let job = &mut self.job;
        attempt.error().clone_into(&mut job.error);
        let number = job.claim_number;
        self.evidence.retain(|one| one.number != number);
        self.evidence.push(Evidence {
            number,
            worker: job.worker.clone(),
            started_at: self.claimed_at,
            ended_at: now,
            attempt: attempt.clone(),
        });
        self.forget_evidence();
    }

    /// Refusals for the rate go first: there may be many, and they say nothing about the job.
    fn forget_evidence(&mut self) {
        let bytes = |one: &Evidence| serde_json::to_string(one).map_or(0, |text| text.len());
        while self.evidence.len() > EVIDENCE_MAX
            || self.evidence.len() > 1 && self.evidence.iter().map(bytes).sum::<usize>() > EVIDENCE_BYTES_MAX
        {
            let refused = |one: &Evidence| one.attempt.cause() == Cause::RateLimited;
            let oldest = self.evidence.iter().position(refused).unwrap_or(0);
            self.evidence.remove(oldest);
        }
    }

    /// Whether this claim is the newest, and has not ended.
    pub(super) fn is_open(&self, claim: &Claim) -> bool {
        self.open && self.job.stage == claim.stage && self.job.claim_number == claim.number
    }

    /// Whether this claim was concluded before.
    pub(super) fn was_concluded(&self, claim: &Claim) -> bool {
        self.concluded && self.job.stage == claim.stage && self.job.claim_number == claim.number
    }

    /// Ends the newest claim with its conclusion. None: it is not open.
    pub(super) fn conclude(&mut self, call: JobCall<'_>, now: Timestamp) -> Option<()> {
        self.apply(call, now)?;
        (self.concluded, self.unsent) = (true, self.job.state == State::Dead);
        Some(())
    }

    /// Applies an operator's change. The caller has seen that it applies.
    pub(super) fn change(&mut self, change: Change, now: Timestamp) {
        self.apply(JobCall::Change(change), now);
        self.unsent &= change != Change::Redrive;
    }

    /// Applies an operator's call to a job that waits. An expired claim has ended for operators.
    pub(super) fn operate(&mut self, call: JobCall<'_>, now: Timestamp) -> Option<()> {
        if self.job.state == State::Running {
            self.apply(JobCall::Due, now)?;
        }
        self.apply(call, now)
    }

    /// Edits the job, unless it runs or has left.
    pub(super) fn edit(&mut self, edit: &Edit, now: Timestamp) -> Edited {
        if self.operate(JobCall::Edit { priority: edit.new_priority() }, now).is_none() {
            return Edited::Refused(self.job.state);
        }
        if let Some(data) = edit.new_data() {
            data.clone_into(&mut self.job.data);
            self.data_in_message = false;
        }
        Edited::Changed
    }

    /// Whether an operator has cancelled or dropped it, and it has not moved elsewhere.
    pub(super) fn was_cancelled(&self) -> bool {
        let error = &self.job.error;
        self.job.state == State::Cancelled
            && !error.starts_with(MOVED_MARK)
            && !error.starts_with(MOVING_MARK)
    }

    /// The record that stays in its old stage when its job leaves for another one.
    pub(super) fn left_for(mut self, stage: &Name, now: Timestamp) -> Self {
        self.operate(JobCall::Withdraw, now);
        self.job.error = format!("{MOVED_TO_STAGE}{}", stage.as_str());
        self
    }

    /// Whether only this record is left here, and another stage has its job.
    pub(super) fn moved_to_stage(&self) -> bool {
        self.job.state == State::Cancelled && self.job.error.starts_with(MOVED_TO_STAGE)
    }

    /// Whether it can leave for another engine now.
    pub(super) fn may_move(&self, now: Timestamp) -> bool {
        self.clone().operate(JobCall::Withdraw, now).is_some()
    }
}
