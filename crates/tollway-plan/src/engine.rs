//! When the engine grants calls. Several limits can hold each other up, so each call is decided in turn.
//!
//! The only file here that knows the engine's types.

use tollway_core::{
    Algorithm, Cost, Decision, Limit, Line, Party, PermitId, Policy, Span, Subject, Terms, Timestamp, decide,
};

use crate::forecast::Finish;

/// The most work before a forecast would take too long: calls, times the limits and slots that each decision looks at.
const WORK_MAX: u128 = 4_000_000;

/// When the last of these calls is granted; none if there are too many to decide one by one. Slots are free again after
/// `latency`; without one, concurrency limits are left out.
pub(crate) fn last_grant(
    policy: &Policy,
    cost: &Cost,
    calls: u128,
    start: Timestamp,
    latency: Option<Span>,
) -> Option<Finish> {
    let limits: Vec<Limit> = policy.limits().iter().filter_map(|limit| with_slots(limit, latency)).collect();
    let slots = limits.iter().filter(|limit| is_concurrency(limit)).map(|limit| u128::from(limit.amount()));
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
pub(crate) struct Caller<'p> {
    party: Party<'p>,
    line: [Line; 1],
    calls: u128,
}

impl<'p> Caller<'p> {
    pub(crate) fn new(policy: &'p Policy, cost: &'p Cost) -> Self {
        static SHARED: Subject = Subject::SHARED;
        let party = Party { policy, subject: &SHARED, cost };
        Self { party, line: [Line::new(policy)], calls: 0 }
    }

    /// When the next call is granted from `now` on; none if that is never.
    pub(crate) fn call(&mut self, mut now: Timestamp) -> Option<Timestamp> {
        self.calls += 1;
        let permit = PermitId(self.calls);
        let terms = Terms { permit, max_wait: Span::ZERO, call: None, readings: false };
        while now < Timestamp::MAX {
            match decide(&[self.party], &mut self.line, &terms, now).ok()? {
                Decision::Granted(grant) => return Some(grant.at),
                Decision::Denied(denial) => now = denial.retry_at,
            }
        }
        None
    }
}

/// The limit, with slots that live as long as a call takes.
fn with_slots(limit: &Limit, latency: Option<Span>) -> Option<Limit> {
    if !is_concurrency(limit) {
        return Some(limit.clone());
    }
    let algorithm = Algorithm::Concurrency { expires: latency? };
    Some(Limit::new(limit.amount(), limit.unit().clone(), algorithm).ok()?.named(limit.name().clone()))
}

fn is_concurrency(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::Concurrency { .. })
}
