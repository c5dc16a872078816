//! A take on its way: sent to the store, and concluded by what the store answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollway_core::{
    Action, Answer, Decision, Fault, Outcome, PermitId, Retry, Span, StoreError, StoreResult, TakeOutcome,
    Terms, Timestamp,
};

use crate::background::InFlight;
use crate::bound_charges::BoundCharges;
use crate::bound_policy::next_permit;
use crate::fallback::FallbackOutcome;
use crate::granted::{Granted, Taken};
use crate::lease::{self, Leased, Unleased};
use crate::state::LimiterState;
use crate::{Denied, Permit, TakeError};

/// A take that left the fast path.
#[derive(Clone)]
pub(crate) struct PendingTake {
    pub(crate) charges: BoundCharges,
    /// As the caller gave them; permit and wait are filled in for each attempt.
    pub(crate) terms: Terms,
}

/// What is known of an attempt once it was sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    permit: PermitId,
    max_wait: Span,
    /// By our clock, before it went out; nothing if the store's time is ours.
    at: Option<Timestamp>,
}

impl PendingTake {
    /// Takes over what a reload has changed, as far as the cost still means the same.
    pub(crate) fn follow_reload(&mut self) {
        let Some(registry) = self.state().registry.get().and_then(std::sync::Weak::upgrade) else { return };
        let generation = registry.generation();
        self.charges.follow(|bound| {
            let found = (bound.generation != generation)
                .then(|| registry.find(bound.policy.name().as_str()).ok())
                .flatten()?;
            (found.policy.units() == bound.policy.units()).then_some(found)
        });
    }

    pub(crate) fn state(&self) -> &Arc<LimiterState> {
        self.charges.state()
    }

    /// Whether a lease may pay for it: one policy that leases, and nothing that only the store can answer.
    pub(crate) fn may_lease(&self) -> bool {
        self.charges.only().is_some_and(|(_, bound)| bound.leases.is_some())
            && self.terms.call.is_none()
            && !self.terms.readings
    }

    /// Whether the store can give it a place in the queue.
    pub(crate) fn may_book(&self) -> bool {
        let mut enforced = self.charges.charges().iter().filter(|charge| !charge.policy.shadow());
        matches!((enforced.next(), enforced.next()), (Some(charge), None) if charge.policy.may_book())
    }

    /// The longest wait: as asked, at most what every policy allows.
    pub(crate) fn longest_wait(&self) -> Span {
        let enforced = self.charges.charges().iter().filter(|charge| !charge.policy.shadow());
        enforced.fold(self.terms.max_wait, |wait, charge| wait.min(charge.policy.max_wait()))
    }

    /// Sends it to the store, to be granted within `max_wait`.
    pub(crate) fn send(&mut self, max_wait: Span) -> (Sent, Answer) {
        let state = self.state();
        let at = if state.in_process() { None } else { Some(state.clock.now()) };
        let permit = next_permit();
        let terms = Terms { permit, max_wait, ..self.terms.clone() };
        (Sent { permit, max_wait, at }, self.charges.send(Action::Take(terms)))
    }

    /// Sends it and waits for the answer. Dropped meanwhile, what it took comes back.
    pub(crate) async fn ask(&mut self, max_wait: Span) -> Result<Taken<'static>, TakeError> {
        if self.may_lease() {
            match lease::take(&self.charges).await {
                Ok(Leased::Granted(booking)) => {
                    return Ok(Taken::Granted(Granted::owned(Permit::leased(self.charges.clone(), booking))));
                }
                Ok(Leased::Denied(decision)) if max_wait == Span::ZERO => {
                    return Ok(Taken::Denied(self.denied(decision)));
                }
                // A caller that may wait gets a place in the store's queue.
                Ok(Leased::Denied(_) | Leased::Not) => {}
                Err(Unleased::Refused(refusal)) => return Err(refusal.into()),
                Err(Unleased::Store(error)) => {
                    let sent = Sent { permit: next_permit(), max_wait, at: None };
                    return self.clone().fall_back(sent, error);
                }
            }
        }
        let (sent, answer) = self.send(max_wait);
        let result = self.in_flight(answer).await;
        self.clone().conclude(sent, result)
    }

    /// The answer under way: dropped before it comes, what it took comes back.
    pub(crate) fn in_flight(&self, answer: Answer) -> InFlight {
        InFlight::new(answer, &self.charges, self.terms.call.is_some())
    }

    /// Makes a permit or a denial of the store's answer.
    pub(crate) fn conclude(self, sent: Sent, result: StoreResult) -> Result<Taken<'static>, TakeError> {
        if let Some(at) = sent.at {
            self.note_latency(at, result.is_ok());
        }
        match result {
            Ok(mut outcomes) => match outcomes.pop() {
                Some(Outcome::Decided(decision)) => Ok(self.decided(sent, decision)),
                Some(Outcome::Refused(refusal)) => Err(refusal.into()),
                _ => Err(self.failed(wrong_answer())),
            },
            Err(error) => self.fall_back(sent, error),
        }
    }

    fn note_latency(&self, sent_at: Timestamp, answered: bool) {
        let state = self.state();
        let now = state.clock.now();
        let took = now.since(sent_at);
        if let Some(counts) = &self.charges.first().1.counts {
            counts.latency.note(took.into());
        }
        // An answer of the breaker says nothing of the store's speed.
        if answered {
            state.alarms.took(took, now);
        }
    }

    fn decided(self, sent: Sent, decision: Decision) -> Taken<'static> {
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
    fn fall_back(self, mut sent: Sent, error: StoreError) -> Result<Taken<'static>, TakeError> {
        let state = Arc::clone(self.state());
        sent.at = None;
        let terms = Terms { max_wait: sent.max_wait, ..Terms::now(sent.permit) };
        state.breaker.degraded_decisions.fetch_add(1, Ordering::Relaxed);
        match state.fallback.decide(self.charges.charges(), terms, error, state.clock.now()) {
            FallbackOutcome::Failed(error) => Err(self.failed(error)),
            FallbackOutcome::Decided(decision) => Ok(self.decided(sent, decision)),
        }
    }

    /// Counts a take that nothing decided, under the policy named first.
    fn failed(&self, error: StoreError) -> TakeError {
        if let Some(counts) = &self.charges.first().1.counts {
            counts.failed();
        }
        error.into()
    }
}

pub(crate) fn wrong_answer() -> StoreError {
    let message = "the store answered another operation than the one it was sent".to_owned();
    StoreError { fault: Fault::Store, retry: Retry::Unclear, message }
}
