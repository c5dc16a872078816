//! Getting a lease: one caller asks the store for all who come meanwhile.

use std::sync::Arc;

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{
    Answer, Cost, Decision, Denial, Grant, GrantNow, Outcome, Policy, Refusal, Span, StoreError, Terms, Verb,
};

use super::{Lease, Leases};
use crate::background::InFlight;
use crate::bound::{Ask, Asks, Shared, next_permit};
use crate::fallback::cost_of;
use crate::request::wrong_answer;

/// How long a lease lasts at the most.
const LASTS: Span = Span::from_secs(1);

/// A lease holds at most this part of the smallest limit: others want some too.
const PART_OF_LIMIT: u64 = 10;

/// What came of a take that may be leased.
pub(crate) enum Leased {
    /// Paid from a lease.
    Granted(GrantNow),
    /// The store has no room for even one call.
    Denied(Denial),
    /// It cannot be leased now: ask the store as if there were no leases.
    Not,
}

/// Why it could not even be asked.
pub(crate) enum Unleased {
    Store(StoreError),
    Refused(Refusal),
}

/// Pays from the subject's lease, or gets one first.
pub(crate) async fn take(ask: &Ask, leases: &Arc<Leases>) -> Result<Leased, Unleased> {
    let Some(turn) = leases.turn(&ask.subject) else { return Ok(Leased::Not) };
    let _mine = turn.lock().await;
    let shared = &ask.bound.shared;
    let spend = || leases.spend(&ask.bound.policy, ask.subject.as_str(), ask.cost(), shared.clock.now());
    if let Some(granted) = spend() {
        return Ok(Leased::Granted(granted));
    }
    let policy = &ask.bound.policy;
    let now = shared.clock.now();
    let mut size = leases.next_size(ask.subject.as_str(), largest(policy, ask.cost()), now);
    // Its rest goes back first, and so is there to be taken again: both go the same way, in order.
    if let Some(spent) = leases.end(ask.subject.as_str()) {
        super::sweep::give_back(shared, &ask.subject, spent);
    }
    loop {
        match ask_for(ask, shared, size).await? {
            Decision::Granted(grant) => {
                leases.begin(ask.subject.as_str(), lease_of(&grant, ask, size, now));
                return Ok(spend().map_or(Leased::Not, Leased::Granted));
            }
            Decision::Denied(denial) => match fewer(policy, ask.cost(), &denial, size) {
                Some(fewer) => size = fewer,
                None if size == 1 => return Ok(Leased::Denied(denial)),
                None => size = 1,
            },
        }
    }
}

/// The most calls' cost that a lease of this policy may hold.
fn largest(policy: &Policy, cost: &Cost) -> u64 {
    let calls = policy.charges(cost).filter(|(_, charge)| *charge > 0);
    calls.map(|(limit, charge)| limit.capacity() / PART_OF_LIMIT / charge).min().unwrap_or(1)
}

/// How many calls' cost the store has room for, if that is less than was asked and more than one.
fn fewer(policy: &Policy, cost: &Cost, denial: &Denial, size: u64) -> Option<u64> {
    let readings = denial.readings.iter().filter(|reading| reading.as_of <= denial.now);
    let rooms = policy.charges(cost).zip(readings).filter(|((_, charge), _)| *charge > 0);
    let room = rooms.map(|((_, charge), reading)| reading.remaining / charge).min()?;
    (1..size).contains(&room).then_some(room)
}

async fn ask_for(ask: &Ask, shared: &Arc<Shared>, size: u64) -> Result<Decision, Unleased> {
    let asks = Asks::One(Ask { cost: Some(times(ask, size)), ..ask.clone() });
    let permit = next_permit();
    let terms = Terms { permit, max_wait: Span::ZERO, call: None, readings: true };
    shared.may_lease();
    // Whoever asked may leave; what was leased meanwhile goes back.
    let answer: Answer = asks.send(Verb::Take(terms));
    let result = InFlight::new(answer, &asks, false).await;
    match result.map_err(Unleased::Store)?.pop() {
        Some(Outcome::Decided(decision)) => Ok(decision),
        Some(Outcome::Refused(refusal)) => Err(Unleased::Refused(refusal)),
        _ => Err(Unleased::Store(wrong_answer())),
    }
}

fn times(ask: &Ask, size: u64) -> Cost {
    cost_of(&ask.bound.policy, |unit| ask.cost().of(unit).saturating_mul(size).min(AMOUNT_MAX))
}

/// Its times count from before the request went out, so they are over before the store's are.
fn lease_of(grant: &Grant, ask: &Ask, size: u64, sent_at: tollway_core::Timestamp) -> Lease {
    let window_ends = match grant.good_until {
        tollway_core::Timestamp::MAX => tollway_core::Timestamp::MAX,
        good_until => sent_at.plus(good_until.since(grant.now)),
    };
    Lease {
        policy: Arc::clone(&ask.bound.policy),
        booking: grant.booking(),
        reserved: times(ask, size),
        size,
        began: sent_at,
        ends: sent_at.plus(LASTS).min(window_ends),
        window_ends,
    }
}
