//! The write attempts of one call: which of its operations are done, and which attempts may have been applied.
//!
//! An item remembers only the sequence and attempt of each writer's last write. The answer to that attempt is kept here,
//! from before the attempt is sent until its outcome is certain.

use tollway_core::{Fault, Outcomes, Retry, StoreError, Timestamp};
use tollway_remote::Call;

use crate::cache::CachedItem;
use crate::unresolved_calls::UnresolvedCalls;

/// The attempts of one call, and the outcomes it has so far.
#[derive(Debug)]
pub(crate) struct WriteAttempts {
    sequence: u64,
    /// The outcomes of the operations that are done, in order.
    pub(crate) outcomes: Outcomes,
    /// Attempts at the next part that may have been applied.
    unresolved: Vec<SentWrite>,
    last_attempt: u32,
}

/// A write that was sent.
#[derive(Debug)]
struct SentWrite {
    number: u32,
    /// The version of the tag's item that it is conditional on.
    on_version: u64,
    at: Timestamp,
    outcomes: Outcomes,
}

impl WriteAttempts {
    fn new(call: &Call) -> Self {
        Self { sequence: call.sequence, outcomes: Outcomes::new(), unresolved: Vec::new(), last_attempt: 0 }
    }

    /// Whether any part of the call was applied, or may have been.
    pub(crate) fn may_be_applied(&self) -> bool {
        self.is_unresolved() || !self.outcomes.is_empty()
    }

    /// Whether an attempt at the current part may have been applied.
    pub(crate) fn is_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Records an attempt before it is sent, and numbers it.
    pub(crate) fn begin(&mut self, on_version: u64, at: Timestamp, outcomes: Outcomes) -> u32 {
        self.last_attempt += 1;
        let number = self.last_attempt;
        self.unresolved.push(SentWrite { number, on_version, at, outcomes });
        number
    }

    /// The last attempt was certainly not applied.
    pub(crate) fn not_applied(&mut self) {
        self.unresolved.pop();
    }

    /// The part is done: the next one starts without attempts.
    pub(crate) fn part_done(&mut self, outcomes: Outcomes) {
        self.outcomes.extend(outcomes);
        self.unresolved.clear();
    }

    /// Whether an attempt in flight could still be applied to this state.
    pub(crate) fn may_still_apply(&self, tag: &CachedItem) -> bool {
        self.unresolved.iter().any(|attempt| attempt.on_version == tag.version())
    }

    /// The answer of the attempt that was applied, if this state of the tag's item shows one.
    pub(crate) fn applied(&self, tag: &CachedItem, me: &str) -> Result<Option<Outcomes>, StoreError> {
        let Some(item) = &tag.item else { return Ok(None) };
        match item.writers.of(me) {
            Some(record) if record.sequence == self.sequence => {
                let applied = self.unresolved.iter().find(|attempt| attempt.number == record.attempt);
                if applied.is_none() && record.attempt > self.last_attempt {
                    return Err(spent("its answer is no longer known"));
                }
                Ok(applied.map(|attempt| attempt.outcomes.clone()))
            }
            Some(record) if record.sequence > self.sequence => {
                Err(spent("a later call of this writer was applied"))
            }
            _ => {
                let forgotten = |attempt: &SentWrite| item.writers.may_have_forgotten(attempt.at);
                // An attempt that is conditional on this very version has not been applied.
                let unknown = self.unresolved.iter().filter(|attempt| attempt.on_version != item.version);
                if unknown.into_iter().any(forgotten) {
                    return Err(spent("the item remembers too many other writers"));
                }
                Ok(None)
            }
        }
    }
}

/// It may have been applied, and no proof is left: it counts as spent, and is not taken again.
fn spent(why: &str) -> StoreError {
    let message = format!("it is unknown whether the call was applied: {why}; it counts as spent");
    StoreError { fault: Fault::Account, retry: Retry::Useless, message }
}

impl UnresolvedCalls<WriteAttempts> {
    /// The attempts of this call: those of an earlier try, or none yet.
    pub(crate) fn resume(&self, call: &Call) -> Result<WriteAttempts, StoreError> {
        match self.take(call) {
            Some(attempts) => Ok(attempts),
            None if call.again => Err(spent("there were too many of its kind")),
            None => Ok(WriteAttempts::new(call)),
        }
    }
}
