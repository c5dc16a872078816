//! A take on its way: what is asked, sent to the store once, and what the answer makes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollway_core::{
    Answer, CallId, Decision, Denial, Fault, Grant, Outcome, PermitId, Retry, Span, StoreError, StoreResult,
    Terms, Timestamp, Verb,
};

use crate::background::InFlight;
use crate::bound::{Ask, Asks, Shared, next_permit};
use crate::fallback::Instead;
use crate::granted::{Granted, Taken};
use crate::lease::{self, Leased, Leases, Unleased};
use crate::metrics::PolicyCounts;
use crate::registry::Registry;
use crate::{Denied, Permit, TakeError};

/// What is asked.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) asks: Asks,
    options: Options,
    /// Where the policies in force are, for those who wait long enough to see them change.
    registry: Arc<Registry>,
}

/// What most takes leave as it is.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) max_wait: Option<Span>,
    pub(crate) call: Option<CallId>,
    pub(crate) readings: bool,
}

/// What is known of a request once it was sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    permit: PermitId,
    max_wait: Span,
    /// By our clock, before it went out; nothing if the store's time is ours.
    at: Option<Timestamp>,
}

impl Request {
    pub(crate) fn new(asks: Asks, options: Options, registry: Arc<Registry>) -> Self {
        Self { asks, options, registry }
    }

    /// Takes over what a reload has changed, as far as the cost still means the same.
    pub(crate) fn follow_reload(&mut self) {
        let generation = self.registry.generation();
        for ask in self.asks.iter_mut().filter(|ask| ask.bound.generation != generation) {
            if let Ok(found) = self.registry.find(ask.bound.policy.name().as_str())
                && found.policy.units() == ask.bound.policy.units()
            {
                ask.bound = found;
            }
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.asks.shared()
    }

    /// The counts of the policy that was named first.
    pub(crate) fn counts(&self) -> Option<Arc<PolicyCounts>> {
        self.asks.first().bound.counts.clone()
    }

    /// The leases it may be paid from: those of one policy, for a take that is like any other.
    pub(crate) fn leased(&self) -> Option<(&Ask, &Arc<Leases>)> {
        let Asks::One(ask) = &self.asks else { return None };
        let plain = self.options.call.is_none() && !self.options.readings;
        Some((ask, ask.bound.leases.as_ref().filter(|_| plain)?))
    }

    /// The caller's id.
    pub(crate) fn call(&self) -> Option<&CallId> {
        self.options.call.as_ref()
    }

    /// Whether the store can give it a place in line.
    pub(crate) fn may_book(&self) -> bool {
        let mut enforced = self.asks.iter().filter(|ask| !ask.bound.policy.shadow());
        matches!((enforced.next(), enforced.next()), (Some(ask), None) if ask.bound.policy.may_book())
    }

    /// The longest wait: as asked, at most what every policy allows.
    pub(crate) fn longest_wait(&self) -> Span {
        let asked = self.options.max_wait.unwrap_or(Span::MAX);
        let enforced = self.asks.iter().filter(|ask| !ask.bound.policy.shadow());
        enforced.fold(asked, |wait, ask| wait.min(ask.bound.policy.max_wait()))
    }

    /// Sends it to the store, to be granted at once or not at all.
    pub(crate) fn send_now(&self) -> (Sent, Answer) {
        self.send(Span::ZERO)
    }

    /// Sends it to the store, to be granted within `max_wait`.
    pub(crate) fn send(&self, max_wait: Span) -> (Sent, Answer) {
        let shared = self.shared();
        let at = if shared.in_process() { None } else { Some(shared.clock.now()) };
        let permit = next_permit();
        let Options { call, readings, .. } = &self.options;
        let terms = Terms { permit, max_wait, call: call.as_ref(), readings: *readings };
        (Sent { permit, max_wait, at }, self.asks.send(Verb::Take(terms)))
    }

    /// Sends it and waits for the answer. Dropped meanwhile, what it took comes back.
    pub(crate) async fn ask(&self, max_wait: Span) -> Result<Taken<'static>, TakeError> {
        if let Some((ask, leases)) = self.leased() {
            match lease::take(ask, leases).await {
                Ok(Leased::Granted(granted)) => {
                    let permit = Permit::of_booking(self.asks.clone(), granted.booking(next_permit()));
                    return Ok(Taken::Granted(Granted::owned(permit)));
                }
                Ok(Leased::Denied(denial)) if max_wait == Span::ZERO => {
                    return Ok(Taken::Denied(self.denied(denial, false)));
                }
                // Whoever may wait gets a place in the store's line.
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
        InFlight::new(answer, &self.asks, self.options.call.is_some())
    }

    /// Makes a permit or a denial of the store's answer.
    pub(crate) fn conclude(self, sent: Sent, result: StoreResult) -> Result<Taken<'static>, TakeError> {
        if let Some(at) = sent.at {
            self.note_latency(at, result.is_ok());
        }
        match result {
            Ok(mut outcomes) => match outcomes.pop() {
                Some(Outcome::Decided(decision)) => Ok(self.decided(sent, decision, false)),
                Some(Outcome::Refused(refusal)) => Err(refusal.into()),
                _ => Err(wrong_answer().into()),
            },
            Err(error) => self.fall_back(sent, error),
        }
    }

    fn note_latency(&self, sent_at: Timestamp, answered: bool) {
        let shared = self.shared();
        let now = shared.clock.now();
        let took = now.since(sent_at);
        if let Some(counts) = self.counts() {
            counts.latency.note(took.into());
        }
        // A store that is left alone is not quick.
        if answered {
            shared.alarms.took(took, now);
        }
    }

    fn decided(self, sent: Sent, decision: Decision, degraded: bool) -> Taken<'static> {
        match decision {
            Decision::Granted(grant) => {
                let remember = self.options.call.is_some();
                Taken::Granted(Granted::owned(Permit::new(self.asks, grant, sent.at, remember, degraded)))
            }
            Decision::Denied(denial) => Taken::Denied(self.denied(denial, degraded)),
        }
    }

    pub(crate) fn denied(&self, denial: Denial, degraded: bool) -> Denied {
        let bound = Arc::clone(&self.asks.get(denial.party).unwrap_or(self.asks.first()).bound);
        Denied { bound, denial, degraded }
    }

    #[cold]
    fn fall_back(self, mut sent: Sent, error: StoreError) -> Result<Taken<'static>, TakeError> {
        let shared = Arc::clone(self.shared());
        sent.at = None;
        let terms = Terms { permit: sent.permit, max_wait: sent.max_wait, call: None, readings: false };
        shared.breaker.degraded_decisions.fetch_add(1, Ordering::Relaxed);
        match shared.fallback.decide(&self.asks, &terms, error, shared.clock.now()) {
            Instead::Failed(error) => Err(error.into()),
            Instead::Decided(decision) => Ok(self.decided(sent, decision, true)),
            Instead::Granted(now) => {
                Ok(self.decided(sent, Decision::Granted(Grant::at_once(terms.permit, now)), true))
            }
        }
    }
}

pub(crate) fn wrong_answer() -> StoreError {
    let message = "the store answered another operation than the one it was sent".to_owned();
    StoreError { fault: Fault::Store, retry: Retry::Unclear, message }
}
