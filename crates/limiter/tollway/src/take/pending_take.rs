//! A take on the slow path: sent to the store, concluded with the store's answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollway_core::{
    Action, Answer, Decision, Fault, Outcome, PermitId, Retry, Span, StoreError, StoreResult, TakeOutcome,
    Terms, Timestamp,
};

use crate::background::InFlight;
use crate::lease::{self, LeaseError, LeaseOutcome};
use crate::outage::fallback::FallbackOutcome;
use crate::state::LimiterState;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::next_permit;
use crate::take::granted::{Granted, Taken};
use crate::{Denied, Permit, TakeError};

/// A take on the slow path.
#[derive(Clone)]
pub(crate) struct PendingTake {
    pub(crate) charges: BoundCharges,
    /// As the caller gave them; permit and wait are filled in for each attempt.
    pub(crate) terms: Terms,
}

/// One attempt that was sent to the store.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    permit: PermitId,
    max_wait: Span,
    /// When it was sent, by the local clock; none if the store uses the same clock.
    at: Option<Timestamp>,
}

impl PendingTake {
    pub(crate) fn state(&self) -> &Arc<LimiterState> {
        self.charges.state()
    }

    /// Whether a lease may pay for it: one policy that leases, no id and no readings.
    pub(crate) fn may_lease(&self) -> bool {
        self.charges.only().is_some_and(|(_, bound)| bound.leases.is_some() && bound.stopped.is_none())
            && self.terms.call.is_none()
            && !self.terms.readings
    }

    /// Whether the store can book it for a later time.
    pub(crate) fn may_book(&self) -> bool {
        let mut enforced = self.charges.charges().iter().filter(|charge| !charge.policy.shadow());
        matches!((enforced.next(), enforced.next()), (Some(charge), None) if charge.policy.may_book())
    }

    /// The longest wait: the caller's, capped by every policy.
    pub(crate) fn longest_wait(&self) -> Span {
        let enforced = self.charges.charges().iter().filter(|charge| !charge.policy.shadow());
        enforced.fold(self.terms.max_wait, |wait, charge| wait.min(charge.policy.max_wait()))
    }

    /// Sends it to the store, to be granted within `max_wait`.
    pub(crate) fn send(&mut self, max_wait: Span) -> (Attempt, Answer) {
        let state = self.state();
        let at = if state.in_process() { None } else { Some(state.clock.now()) };
        let permit = next_permit();
        let readings = self.terms.readings || self.charges.needs_known_usage();
        let terms = Terms { permit, max_wait, readings, ..self.terms.clone() };
        (Attempt { permit, max_wait, at }, self.charges.send(Action::Take(terms)))
    }

    /// Sends it and waits for the answer. Dropping the future returns what it was granted.
    pub(crate) async fn send_and_wait(&mut self, max_wait: Span) -> Result<Taken<'static>, TakeError> {
        if self.may_lease() {
            match lease::take(&self.charges).await {
                Ok(LeaseOutcome::Granted(booking)) => {
                    return Ok(Taken::Granted(Granted::owned(Permit::leased(self.charges.clone(), booking))));
                }
                Ok(LeaseOutcome::Denied(decision)) if max_wait == Span::ZERO => {
                    return Ok(Taken::Denied(self.denied(decision)));
                }
                // A caller that may wait joins the store's queue.
                Ok(LeaseOutcome::Denied(_) | LeaseOutcome::NotLeased) => {}
                Err(LeaseError::Refused(refusal)) => return Err(refusal.into()),
                Err(LeaseError::Store(error)) => {
                    let sent = Attempt { permit: next_permit(), max_wait, at: None };
                    return self.clone().fall_back(sent, error);
                }
            }
        }
        let (sent, answer) = self.send(max_wait);
        let result = self.in_flight(answer).await;
        self.clone().conclude(sent, result)
    }

    /// The pending answer. Dropping it returns what the take is granted.
    pub(crate) fn in_flight(&self, answer: Answer) -> InFlight {
        InFlight::new(answer, &self.charges, self.terms.call.is_some())
    }

    /// Turns the store's answer into a permit or a denial.
    pub(crate) fn conclude(self, sent: Attempt, result: StoreResult) -> Result<Taken<'static>, TakeError> {
        if let Some(at) = sent.at {
            self.note_latency(at, result.is_ok());
        }
        match result {
            Ok(mut outcomes) => match outcomes.pop() {
                Some(Outcome::Decided(mut decision)) => {
                    self.learn(&mut decision);
                    Ok(self.decided(sent, decision))
                }
                Some(Outcome::Refused(refusal)) => Err(refusal.into()),
                _ => Err(self.failed(wrong_answer())),
            },
            Err(error) => self.fall_back(sent, error),
        }
    }

    /// Keeps what the store said is left, and drops readings that the caller did not ask for.
    fn learn(&self, decision: &mut Decision) {
        if self.charges.needs_known_usage() {
            let state = self.state();
            state.fallback.learn(self.charges.charges(), decision, state.clock.now());
        }
        if !self.terms.readings {
            decision.charges.clear();
        }
    }

    fn note_latency(&self, sent_at: Timestamp, answered: bool) {
        let state = self.state();
        let now = state.clock.now();
        let latency = now.since(sent_at);
        if let Some(counts) = self.charges.first().1.counts() {
            counts.latency.note(latency.into());
        }
        // An answer of the breaker says nothing about the store's latency.
        if answered {
            state.alarms.note_latency(latency, now);
        }
    }

    fn decided(self, sent: Attempt, decision: Decision) -> Taken<'static> {
        match decision.outcome {
            TakeOutcome::Granted(_) => {
                let remember = self.terms.call.is_some();
                Taken::Granted(Granted::owned(Permit::new(self.charges, decision, sent.at, remember)))
            }
            TakeOutcome::Denied(_) => Taken::Denied(self.denied(decision)),
        }
    }

    pub(crate) fn denied(&self, decision: Decision) -> Denied {
        Denied::new(&self.charges, decision)
    }

    #[cold]
    fn fall_back(self, mut sent: Attempt, error: StoreError) -> Result<Taken<'static>, TakeError> {
        let state = Arc::clone(self.state());
        sent.at = None;
        let terms = Terms { max_wait: sent.max_wait, ..Terms::now(sent.permit) };
        state.outages.degraded_decisions.fetch_add(1, Ordering::Relaxed);
        let (charges, now) = (self.charges.charges(), state.clock.now());
        match state.fallback.decide(charges, terms, error, &*state.store, now) {
            FallbackOutcome::Failed(error) => Err(self.failed(error)),
            FallbackOutcome::Decided(decision) => Ok(self.decided(sent, decision)),
        }
    }

    /// Counts an undecided take under its first policy.
    fn failed(&self, error: StoreError) -> TakeError {
        if let Some(counts) = self.charges.first().1.counts() {
            counts.failed();
        }
        error.into()
    }
}

pub(crate) fn wrong_answer() -> StoreError {
    let message = "the store answered another operation than the one it was sent".to_owned();
    StoreError { fault: Fault::Store, retry: Retry::Unclear, message }
}
