//! A call on its way: what of it is done, and attempts of which nobody knows whether they were applied.
//!
//! The item only remembers which attempt of which sequence was the writer's last; what was answered then is kept here,
//! from before the attempt is sent until its outcome is certain.

use tollway_core::{Fault, Outcomes, Retry, StoreError, Timestamp};
use tollway_remote::Call;

use crate::aside::Aside;
use crate::cache::Known;

/// What came of one call so far.
#[derive(Debug)]
pub(crate) struct Journey {
    sequence: u64,
    /// Of the operations that are done, in order.
    pub(crate) outcomes: Outcomes,
    /// Attempts at the next ones that may have been applied.
    attempts: Vec<Attempt>,
    last_attempt: u32,
}

/// A write that was sent.
#[derive(Debug)]
struct Attempt {
    number: u32,
    /// The version of the tag's item that it is conditional on.
    on_version: u64,
    at: Timestamp,
    outcomes: Outcomes,
}

impl Journey {
    fn new(call: &Call) -> Self {
        Self { sequence: call.sequence, outcomes: Outcomes::new(), attempts: Vec::new(), last_attempt: 0 }
    }

    /// Whether an attempt may have been applied.
    pub(crate) fn is_unclear(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// Notes an attempt before it is sent, and gives it a number.
    pub(crate) fn attempt(&mut self, on_version: u64, at: Timestamp, outcomes: Outcomes) -> u32 {
        self.last_attempt += 1;
        let number = self.last_attempt;
        self.attempts.push(Attempt { number, on_version, at, outcomes });
        number
    }

    /// The last attempt was certainly not applied.
    pub(crate) fn refused(&mut self) {
        self.attempts.pop();
    }

    /// The operations of the attempts are done.
    pub(crate) fn advance(&mut self, outcomes: Outcomes) {
        self.outcomes.extend(outcomes);
        self.attempts.clear();
    }

    /// Whether an attempt could still be applied to this state.
    pub(crate) fn may_come(&self, tag: &Known) -> bool {
        self.attempts.iter().any(|attempt| attempt.on_version == tag.version())
    }

    /// What was answered by the attempt that was applied, if one was, as far as this state of the tag's item tells.
    pub(crate) fn applied(&self, tag: &Known, me: &str) -> Result<Option<Outcomes>, StoreError> {
        let Some(item) = &tag.item else { return Ok(None) };
        match item.writers.of(me) {
            Some(record) if record.sequence == self.sequence => {
                let applied = self.attempts.iter().find(|attempt| attempt.number == record.attempt);
                if applied.is_none() && record.attempt > self.last_attempt {
                    return Err(spent("its answer is no longer known"));
                }
                Ok(applied.map(|attempt| attempt.outcomes.clone()))
            }
            Some(record) if record.sequence > self.sequence => {
                Err(spent("a later call of this writer was applied"))
            }
            _ => {
                let forgotten = |attempt: &Attempt| item.writers.may_have_forgotten(attempt.at);
                // What is conditional on this very version has not been applied.
                let unknown = self.attempts.iter().filter(|attempt| attempt.on_version != item.version);
                if unknown.into_iter().any(forgotten) {
                    return Err(spent("the item remembers too many other writers"));
                }
                Ok(None)
            }
        }
    }
}

/// It may have been applied, and nobody can tell any more: it counts as spent, and is not taken again.
fn spent(why: &str) -> StoreError {
    let message = format!("whether the call was applied cannot be told: {why}; it counts as spent");
    StoreError { fault: Fault::Line, retry: Retry::Useless, message }
}

/// Calls that were not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Journeys(Aside<Journey>);

impl Journeys {
    /// The journey of this call: the one that was laid aside, or a new one.
    pub(crate) fn resume(&self, call: &Call) -> Result<Journey, StoreError> {
        match self.0.take(call) {
            Some(journey) => Ok(journey),
            None if call.again => Err(spent("there were too many of its kind")),
            None => Ok(Journey::new(call)),
        }
    }

    /// Lays it aside until the call is sent again. One of which nothing is known yet need not be kept.
    pub(crate) fn lay_aside(&self, call: &Call, journey: Journey) {
        if journey.is_unclear() || !journey.outcomes.is_empty() {
            self.0.lay(call, journey);
        }
    }
}
