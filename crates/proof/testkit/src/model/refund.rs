//! Settle, return, done and renew in the model.

use tollway_core::bounds::{REFUND_REMEMBERED, REFUNDS_MAX};
use tollway_core::{Algorithm, Booking, Charge, Cost, Limit, PermitId, Refusal, Settled, Span, Timestamp};

use super::account::Account;
use super::log::{Entry, Log, refills, slot_life, within};
use super::take::first_in_key_order;
use crate::calendar::{multiple_of, window_at};

pub(super) fn settle(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: &Booking,
    actual: &[Cost],
    remember: bool,
    now: Timestamp,
) -> Result<Settled, Refusal> {
    for (charge, actual) in charges.iter().zip(actual).filter(|(charge, _)| !charge.policy.shadow()) {
        refuse_overrun(charge, actual)?;
    }
    if let Some(answer) = unchanged_answer(charges, accounts, booking, remember, now) {
        return Ok(answer);
    }
    let mut whole = true;
    for ((charge, account), actual) in charges.iter().zip(accounts).zip(actual) {
        let amounts: Vec<u64> = charge.policy.amounts(actual).map(|(_, amount)| amount).collect();
        whole &= correct(charge, account, booking, &amounts, false, now);
    }
    Ok(if whole { Settled::Whole } else { Settled::Partly })
}

pub(super) fn give_back(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: &Booking,
    remember: bool,
    now: Timestamp,
) -> Settled {
    if let Some(answer) = unchanged_answer(charges, accounts, booking, remember, now) {
        return answer;
    }
    let mut whole = true;
    for (charge, account) in charges.iter().zip(accounts) {
        account.calls.retain(|call| call.permit != booking.permit);
        if !account.undo(booking.permit, &charge.policy, now) {
            let slots = |limit: &Limit| u64::from(slot_life(limit).is_some());
            let nothing: Vec<u64> = charge.policy.limits().iter().map(slots).collect();
            whole &= correct(charge, account, booking, &nothing, booking.at > now, now);
        }
    }
    if whole { Settled::Whole } else { Settled::Partly }
}

/// Frees the permit's slots. Returns whether it still held one.
pub(super) fn done(charges: &[Charge], accounts: &mut [Account], permit: PermitId, clock: Timestamp) -> bool {
    let mut held = false;
    for (charge, account) in charges.iter().zip(accounts) {
        let now = clock.max(account.seen);
        for limit in charge.policy.limits() {
            let log = account.log_mut(limit);
            held |= log.slots.iter().any(|slot| holds(slot, permit, now));
            log.slots.retain(|(holder, _)| *holder != permit);
        }
    }
    held
}

/// Extends all of the permit's slots, or none if one has expired.
pub(super) fn renew(charges: &[Charge], accounts: &mut [Account], permit: PermitId, now: Timestamp) -> bool {
    for (charge, account) in charges.iter().zip(accounts) {
        for limit in charge.policy.limits() {
            let Some(expires) = slot_life(limit) else { continue };
            let mut slots = account.log_mut(limit).slots.iter_mut();
            let Some((_, until)) = slots.find(|slot| holds(slot, permit, now)) else { return false };
            *until = now.plus(expires).max(*until);
        }
        account.record_change(&charge.policy, now);
    }
    true
}

fn holds((holder, until): &(PermitId, Timestamp), permit: PermitId, now: Timestamp) -> bool {
    *holder == permit && *until > now
}

/// The answer if nothing must change: reset since, refunded before, or too many refunds to remember.
fn unchanged_answer(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: &Booking,
    remember: bool,
    now: Timestamp,
) -> Option<Settled> {
    if accounts
        .iter()
        .any(|account| account.reset_at > Timestamp::EPOCH && booking.granted_at <= account.reset_at)
    {
        return Some(Settled::Dropped);
    }
    if !remember {
        return None;
    }
    let refunds = &mut accounts[first_in_key_order(charges)].refunds;
    refunds.retain(|(_, expires)| *expires > now);
    if refunds.iter().any(|(permit, _)| *permit == booking.permit) {
        return Some(Settled::Repeated);
    }
    if refunds.len() >= REFUNDS_MAX {
        return Some(Settled::Dropped);
    }
    let limits = charges.iter().flat_map(|charge| charge.policy.limits());
    let longest = limits.map(Limit::longest_memory).max().unwrap_or_default();
    refunds.push((booking.permit, booking.at.plus(longest).max(now.plus(REFUND_REMEMBERED))));
    None
}

/// Corrects every limit of an account. Returns whether all could be corrected.
///
/// `keep_buckets`: the booking is still ahead and later ones rely on its units, so buckets stay debited.
fn correct(
    charge: &Charge,
    account: &mut Account,
    booking: &Booking,
    actual: &[u64],
    keep_buckets: bool,
    now: Timestamp,
) -> bool {
    let when = now.max(account.as_of());
    let mut whole = true;
    for ((limit, reserved), actual) in charge.amounts().zip(actual.iter().copied()) {
        let log = account.log_mut(limit);
        log.slots.retain(|(holder, _)| *holder != booking.permit);
        let too_late = match limit.algorithm() {
            Algorithm::Window(calendar) => !within(window_at(calendar, when), booking.at),
            Algorithm::FromFirstCall(period) => {
                !log.running(*period, when).is_some_and(|(window, _)| within(window, booking.at))
            }
            Algorithm::Sliding(period) => !within(multiple_of(*period, when), booking.at),
            Algorithm::Bucket { .. } | Algorithm::Paced(_) | Algorithm::Adaptive(_) => {
                let age = when.since(booking.at);
                keep_buckets || (actual < reserved && refilled_since(log, limit, age))
            }
            Algorithm::Concurrency { .. } => false,
        };
        if actual == reserved {
            continue;
        }
        if limit.is_adaptive() && !keep_buckets {
            log.learned.grants = log.grants(limit, when).saturating_sub(reserved - actual);
        }
        if too_late {
            whole = false;
            continue;
        }
        let permit = booking.permit;
        log.entries.push(Entry { when, booked_at: booking.at, permit, minus: reserved, plus: actual });
    }
    account.record_change(&charge.policy, now);
    account.undo = None;
    whole
}

/// Whether a whole burst has refilled in this time, so that the permit's units no longer count.
fn refilled_since(log: &Log, limit: &Limit, age: Span) -> bool {
    let (amount, period) = log.rate(limit);
    let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
    product(age.as_micros(), amount) > product(log.capacity(limit), period.as_micros())
}

fn refuse_overrun(charge: &Charge, actual: &Cost) -> Result<(), Refusal> {
    for ((limit, reserved), (_, actual)) in charge.amounts().zip(charge.policy.amounts(actual)) {
        let (overrun, burst) = (actual.saturating_sub(reserved), limit.capacity());
        if refills(limit) && overrun > burst {
            let (policy, limit) = (charge.policy.name().clone(), limit.name().clone());
            return Err(Refusal::OverrunTooLarge { policy, limit, overrun, burst });
        }
    }
    Ok(())
}
