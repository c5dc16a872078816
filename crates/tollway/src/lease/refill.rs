//! Getting a lease: one caller asks the store for all who come meanwhile.

use std::sync::Arc;

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{
    Action, Booking, Charge, Cost, Decision, FastDecision, Outcome, Policy, Refusal, Span, StoreError, Terms,
    Timestamp,
};

use super::Lease;
use crate::background::InFlight;
use crate::bound_charges::BoundCharges;
use crate::bound_policy::{BoundPolicy, next_permit};
use crate::fallback::cost_of;
use crate::pending_take::wrong_answer;

/// How long a lease lasts at the most.
const LASTS: Span = Span::from_secs(1);

/// A lease holds at most this part of the smallest limit: others want some too.
const PART_OF_LIMIT: u64 = 10;

/// What came of a take that may be leased.
pub(crate) enum Leased {
    /// Paid from a lease.
    Granted(Booking),
    /// The store has no room for even one call.
    Denied(Decision),
    /// It cannot be leased now: ask the store as if there were no leases.
    Not,
}

/// Why it could not even be asked.
pub(crate) enum Unleased {
    Store(StoreError),
    Refused(Refusal),
}

/// Pays from the subject's lease, or gets one first.
pub(crate) async fn take(charges: &BoundCharges) -> Result<Leased, Unleased> {
    let (charge, bound) = charges.first();
    let Some(leases) = &bound.leases else { return Ok(Leased::Not) };
    let subject = charge.subject.as_str();
    let Some(turn) = leases.turn(&charge.subject) else { return Ok(Leased::Not) };
    let _mine = turn.lock().await;
    let clock = &bound.state.clock;
    let spend = || match leases.spend(&charge.policy, subject, charge.cost(), clock.now())? {
        FastDecision::Granted { now, good_until } => {
            Some(Booking { permit: next_permit(), granted_at: now, at: now, good_until })
        }
        FastDecision::Denied { .. } => None,
    };
    if let Some(booking) = spend() {
        return Ok(Leased::Granted(booking));
    }
    let now = clock.now();
    let mut size = leases.next_size(subject, largest(&charge.policy, charge.cost()), now);
    // Its rest goes back first, and so is there to be taken again: both go the same way, in order.
    if let Some(spent) = leases.end(subject) {
        super::sweep::give_back(&bound.state, &charge.subject, spent);
    }
    loop {
        let decision = ask_for(charge, bound, size).await?;
        if let Some(booking) = decision.booking() {
            leases.begin(subject, lease_of(*booking, decision.now, charge, size, now));
            return Ok(spend().map_or(Leased::Not, Leased::Granted));
        }
        match fewer(charge, &decision, size) {
            Some(fewer) => size = fewer,
            None if size == 1 => return Ok(Leased::Denied(decision)),
            None => size = 1,
        }
    }
}

/// The most calls' cost that a lease of this policy may hold.
fn largest(policy: &Policy, cost: &Cost) -> u64 {
    let calls = policy.amounts(cost).filter(|(_, amount)| *amount > 0);
    calls.map(|(limit, amount)| limit.capacity() / PART_OF_LIMIT / amount).min().unwrap_or(1)
}

/// How many calls' cost the store has room for, if that is less than was asked and more than one.
fn fewer(charge: &Charge, decision: &Decision, size: u64) -> Option<u64> {
    let readings = decision.charges.iter().flat_map(|charge| &charge.readings);
    let readings = readings.filter(|reading| reading.as_of <= decision.now);
    let rooms = charge.amounts().zip(readings).filter(|((_, amount), _)| *amount > 0);
    let room = rooms.map(|((_, amount), reading)| reading.remaining / amount).min()?;
    (1..size).contains(&room).then_some(room)
}

async fn ask_for(charge: &Charge, bound: &Arc<BoundPolicy>, size: u64) -> Result<Decision, Unleased> {
    let mut charges = BoundCharges::one(Arc::clone(bound), charge.subject.clone(), Some(times(charge, size)));
    let terms = Terms { readings: true, ..Terms::now(next_permit()) };
    bound.state.may_lease();
    // The caller may leave meanwhile; then what was leased goes back.
    let answer = charges.send(Action::Take(terms));
    let result = InFlight::new(answer, &charges, false).await;
    match result.map_err(Unleased::Store)?.pop() {
        Some(Outcome::Decided(decision)) => Ok(decision),
        Some(Outcome::Refused(refusal)) => Err(Unleased::Refused(refusal)),
        _ => Err(Unleased::Store(wrong_answer())),
    }
}

fn times(charge: &Charge, size: u64) -> Cost {
    cost_of(&charge.policy, |unit| charge.cost().of(unit).saturating_mul(size).min(AMOUNT_MAX))
}

/// Its times count from before the request went out, so they are over before the store's are.
fn lease_of(booking: Booking, decided: Timestamp, charge: &Charge, size: u64, sent_at: Timestamp) -> Lease {
    let window_ends = match booking.good_until {
        Timestamp::MAX => Timestamp::MAX,
        good_until => sent_at.plus(good_until.since(decided)),
    };
    Lease {
        policy: Arc::clone(&charge.policy),
        booking,
        reserved: times(charge, size),
        size,
        began: sent_at,
        ends: sent_at.plus(LASTS).min(window_ends),
        window_ends,
    }
}
