//! When the engine grants calls. Several limits can hold each other up, so each call is decided in turn.
//!
//! The only file of this crate that uses the engine's types.

use std::sync::Arc;

use tollway_core::{
    Account, Algorithm, Charge, Cost, Limit, PermitId, Policy, Span, Subject, TakeOutcome, Terms, Timestamp,
    decide,
};

use crate::plan::forecast::Finish;

/// The most work of a forecast: calls times the limits and slots of each decision.
const WORK_MAX: u128 = 4_000_000;

/// When the last of these calls is granted; `None` if there are too many to decide one by one. A slot is held for `latency`;
/// without it, concurrency limits are ignored.
pub(crate) fn last_grant(
    policy: &Policy,
    cost: &Cost,
    calls: u128,
    start: Timestamp,
    latency: Option<Span>,
) -> Option<Finish> {
    let limits: Vec<Limit> = policy.limits().iter().filter_map(|limit| with_slots(limit, latency)).collect();
    let slots = limits.iter().filter(|limit| limit.has_slots()).map(|limit| u128::from(limit.amount()));
    let work = slots.sum::<u128>().saturating_add(limits.len() as u128);
    // A call that has to wait is decided at least twice.
    if calls.checked_mul(work)?.checked_mul(2)? > WORK_MAX {
        return None;
    }
    let policy = policy.with_limits(limits).ok()?.with_shadow(false);
    let mut caller = Caller::new(&policy, cost);
    let mut at = start;
    for _ in 0..calls {
        match caller.call(at) {
            Some(granted) => at = granted,
            None => return Some(Finish::Beyond),
        }
    }
    Some(Finish::At(at))
}

/// A caller that makes one call after another and retries each when the denial says.
pub(crate) struct Caller {
    charge: [Charge; 1],
    line: [Account; 1],
    calls: u128,
}

impl Caller {
    pub(crate) fn new(policy: &Policy, cost: &Cost) -> Self {
        let charge = Charge::new(Arc::new(policy.clone()), Subject::SHARED).with_cost(cost.clone());
        Self { charge: [charge], line: [Account::new(policy)], calls: 0 }
    }

    /// When the next call is granted from `now` on; none if that is never.
    pub(crate) fn call(&mut self, mut now: Timestamp) -> Option<Timestamp> {
        self.calls += 1;
        let terms = Terms::now(PermitId(self.calls));
        while now < Timestamp::MAX {
            match decide(&self.charge, &mut self.line, &terms, now).ok()?.outcome {
                TakeOutcome::Granted(booking) => return Some(booking.at),
                TakeOutcome::Denied(denial) => now = denial.retry_at,
            }
        }
        None
    }
}

/// The limit, with slots that live as long as a call takes.
fn with_slots(limit: &Limit, latency: Option<Span>) -> Option<Limit> {
    if !limit.has_slots() {
        return Some(limit.clone());
    }
    let algorithm = Algorithm::Concurrency { expires: latency? };
    Some(Limit::new(limit.amount(), limit.unit().clone(), algorithm).ok()?.named(limit.name().clone()))
}
