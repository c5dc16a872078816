//! Taking a lease: one caller takes it from the store, concurrent callers for the same subject wait for it.

use std::sync::Arc;

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{
    Action, Booking, Charge, Cost, Decision, FastDecision, Outcome, Policy, Refusal, Span, StoreError, Terms,
    Timestamp,
};

use super::Lease;
use crate::background::InFlight;
use crate::outage::fallback::cost_of;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::{BoundPolicy, next_permit};
use crate::take::pending_take::wrong_answer;

/// The longest a lease lasts.
const LASTS: Span = Span::from_secs(1);

/// A lease holds at most one part in this many of the smallest limit, to leave room for other processes.
const PART_OF_LIMIT: u64 = 10;

/// The outcome of a take that may be paid from a lease.
pub(crate) enum LeaseOutcome {
    /// Paid from a lease.
    Granted(Booking),
    /// The store has no room for even one call.
    Denied(Decision),
    /// No lease is possible now; the take goes to the store.
    NotLeased,
}

/// Why the store gave no decision about the lease.
pub(crate) enum LeaseError {
    Store(StoreError),
    Refused(Refusal),
}

/// Pays from the subject's lease; takes a lease first if there is none.
pub(crate) async fn take(charges: &BoundCharges) -> Result<LeaseOutcome, LeaseError> {
    let (charge, bound) = charges.first();
    let Some(leases) = &bound.leases else { return Ok(LeaseOutcome::NotLeased) };
    let subject = charge.subject.as_str();
    let Some(refill_lock) = leases.refill_lock(&charge.subject) else { return Ok(LeaseOutcome::NotLeased) };
    let _refilling = refill_lock.lock().await;
    let clock = bound.state.expiry_clock();
    let spend = || match leases.spend(&charge.policy, subject, charge.cost(), clock.now())? {
        FastDecision::Granted { now, good_until } => {
            Some(Booking { permit: next_permit(), granted_at: now, at: now, good_until })
        }
        FastDecision::Denied { .. } => None,
    };
    if let Some(booking) = spend() {
        return Ok(LeaseOutcome::Granted(booking));
    }
    let now = clock.now();
    let mut size = leases.next_size(subject, largest_lease(&charge.policy, charge.cost()), now);
    // The store serves calls in order, so the new lease can use the unspent units of the old one.
    if let Some(ended) = leases.end(subject) {
        super::sweep::return_rest(&bound.state, &charge.subject, ended);
    }
    loop {
        let decision = take_lease(charge, bound, size).await?;
        if let Some(booking) = decision.booking() {
            leases.begin(subject, lease_of(*booking, decision.now, charge, size, now));
            return Ok(spend().map_or(LeaseOutcome::NotLeased, LeaseOutcome::Granted));
        }
        match smaller_size(charge, &decision, size) {
            Some(smaller) => size = smaller,
            None if size == 1 => return Ok(LeaseOutcome::Denied(decision)),
            None => size = 1,
        }
    }
}

/// The most calls that a lease of this policy may pay for.
fn largest_lease(policy: &Policy, cost: &Cost) -> u64 {
    let calls = policy.amounts(cost).filter(|(_, amount)| *amount > 0);
    calls.map(|(limit, amount)| limit.capacity() / PART_OF_LIMIT / amount).min().unwrap_or(1)
}

/// How many calls the store has room for, if that is less than `size` and at least one.
fn smaller_size(charge: &Charge, decision: &Decision, size: u64) -> Option<u64> {
    let readings = decision.charges.iter().flat_map(|charge| &charge.readings);
    let readings = readings.filter(|reading| reading.as_of <= decision.now);
    let rooms = charge.amounts().zip(readings).filter(|((_, amount), _)| *amount > 0);
    let room = rooms.map(|((_, amount), reading)| reading.remaining / amount).min()?;
    (1..size).contains(&room).then_some(room)
}

async fn take_lease(charge: &Charge, bound: &Arc<BoundPolicy>, size: u64) -> Result<Decision, LeaseError> {
    let mut charges =
        BoundCharges::one(Arc::clone(bound), charge.subject.clone(), Some(cost_of_calls(charge, size)));
    let terms = Terms { readings: true, ..Terms::now(next_permit()) };
    bound.state.start_lease_sweep();
    // If the caller drops the future, the lease is returned.
    let answer = charges.send(Action::Take(terms));
    let result = InFlight::new(answer, &charges, false).await;
    match result.map_err(LeaseError::Store)?.pop() {
        Some(Outcome::Decided(decision)) => {
            let state = &bound.state;
            state.fallback.learn(charges.charges(), &decision, state.clock.now());
            Ok(decision)
        }
        Some(Outcome::Refused(refusal)) => Err(LeaseError::Refused(refusal)),
        _ => Err(LeaseError::Store(wrong_answer())),
    }
}

fn cost_of_calls(charge: &Charge, size: u64) -> Cost {
    cost_of(&charge.policy, |unit| charge.cost().of(unit).saturating_mul(size).min(AMOUNT_MAX))
}

/// Its times count from before the request was sent, so they end before the store's do.
fn lease_of(booking: Booking, decided: Timestamp, charge: &Charge, size: u64, sent_at: Timestamp) -> Lease {
    let window_ends = match booking.good_until {
        Timestamp::MAX => Timestamp::MAX,
        good_until => sent_at.plus(good_until.since(decided)),
    };
    Lease {
        policy: Arc::clone(&charge.policy),
        booking,
        reserved: cost_of_calls(charge, size),
        size,
        began: sent_at,
        ends: sent_at.plus(LASTS).min(window_ends),
        window_ends,
    }
}
