//! When the last call is granted under several limits: they can hold each other up, so the engine is asked call by call.

use tollway::core::{Algorithm, Cost, Decision, Limit, Line, Party, PermitId, Policy, Terms, decide};
use tollway::{Span, Subject, Timestamp};

use super::forecast::Moment;

/// How much is looked at before it would take too long: calls, times the limits and slots that each looks at.
const WORK_MAX: u128 = 4_000_000;

/// Nothing if there are too many calls to go through. Slots are free again after `latency`; without one they do not
/// count.
pub(super) fn last_grant(
    policy: &Policy,
    cost: &Cost,
    calls: u128,
    start: Timestamp,
    latency: Option<Span>,
) -> Option<Moment> {
    let limits: Vec<Limit> = policy.limits().iter().filter_map(|limit| with_slots(limit, latency)).collect();
    let slots = limits.iter().filter(|limit| is_concurrency(limit)).map(|limit| u128::from(limit.amount()));
    let work = slots.sum::<u128>().saturating_add(limits.len() as u128);
    // A call is decided twice at least if it has to wait.
    if calls.checked_mul(work)?.checked_mul(2)? > WORK_MAX {
        return None;
    }
    let policy = policy.with_limits(limits).ok()?.with_shadow(false);
    let party = Party { policy: &policy, subject: &Subject::SHARED, cost };
    let mut line = [Line::new(&policy)];
    let mut at = start;
    for number in 0..calls {
        match grant(&party, &mut line, PermitId(number), at) {
            Some(granted) => at = granted,
            None => return Some(Moment::Beyond),
        }
    }
    Some(Moment::At(at))
}

/// When it is granted from `now` on to somebody who comes back when told. Nothing if that is never.
fn grant(party: &Party<'_>, line: &mut [Line], permit: PermitId, mut now: Timestamp) -> Option<Timestamp> {
    let terms = Terms { permit, max_wait: Span::ZERO, call: None, readings: false };
    while now < Timestamp::MAX {
        match decide(&[*party], line, &terms, now).ok()? {
            Decision::Granted(grant) => return Some(grant.at),
            Decision::Denied(denial) => now = denial.retry_at,
        }
    }
    None
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
