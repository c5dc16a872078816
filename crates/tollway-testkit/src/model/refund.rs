//! Settling, returning, done and renew, by the model.

use tollway_core::bounds::{REFUND_REMEMBERED, REFUNDS_MAX};
use tollway_core::{Algorithm, Booking, Cost, Limit, Party, PermitId, Refusal, Settled, Span, Timestamp};

use super::line::Line;
use super::log::{Entry, refills, slot_life, within};
use super::take::first_in_key_order;
use crate::calendar::{multiple_of, window_at};

pub(super) fn settle(
    parties: &[Party<'_>],
    lines: &mut [Line],
    booking: &Booking,
    actual: &[Cost],
    remember: bool,
    now: Timestamp,
) -> Result<Settled, Refusal> {
    for (party, actual) in parties.iter().zip(actual).filter(|(party, _)| !party.policy.shadow()) {
        refuse_overrun(party, actual)?;
    }
    if let Some(answer) = not_again(parties, lines, booking, remember, now) {
        return Ok(answer);
    }
    let mut whole = true;
    for ((party, line), actual) in parties.iter().zip(lines).zip(actual) {
        whole &= correct(party, line, booking, actual, false, now);
    }
    Ok(if whole { Settled::Whole } else { Settled::Partly })
}

pub(super) fn give_back(
    parties: &[Party<'_>],
    lines: &mut [Line],
    booking: &Booking,
    remember: bool,
    now: Timestamp,
) -> Settled {
    if let Some(answer) = not_again(parties, lines, booking, remember, now) {
        return answer;
    }
    let mut whole = true;
    for (party, line) in parties.iter().zip(lines) {
        line.calls.retain(|call| call.grant.permit != booking.permit);
        if !line.undo(booking.permit, party.policy, now) {
            whole &= correct(party, line, booking, &Cost::default(), booking.at > now, now);
        }
    }
    if whole { Settled::Whole } else { Settled::Partly }
}

/// Frees the permit's slots; says whether it still held one.
pub(super) fn done(parties: &[Party<'_>], lines: &mut [Line], permit: PermitId, clock: Timestamp) -> bool {
    let mut held = false;
    for (party, line) in parties.iter().zip(lines) {
        let now = clock.max(line.seen);
        for limit in party.policy.limits() {
            let log = line.log_mut(limit);
            held |= log.slots.iter().any(|slot| holds(slot, permit, now));
            log.slots.retain(|(holder, _)| *holder != permit);
        }
    }
    held
}

/// Keeps all of the permit's slots, or, if one is lost, none.
pub(super) fn renew(parties: &[Party<'_>], lines: &mut [Line], permit: PermitId, now: Timestamp) -> bool {
    for (party, line) in parties.iter().zip(lines) {
        for limit in party.policy.limits() {
            let Some(expires) = slot_life(limit) else { continue };
            let mut slots = line.log_mut(limit).slots.iter_mut();
            let Some((_, until)) = slots.find(|slot| holds(slot, permit, now)) else { return false };
            *until = now.plus(expires).max(*until);
        }
        line.bring_along(party.policy, now, None);
    }
    true
}

fn holds((holder, until): &(PermitId, Timestamp), permit: PermitId, now: Timestamp) -> bool {
    *holder == permit && *until > now
}

/// The answer if nothing is to change: reset since, refunded before, or too many refunds to remember.
fn not_again(
    parties: &[Party<'_>],
    lines: &mut [Line],
    booking: &Booking,
    remember: bool,
    now: Timestamp,
) -> Option<Settled> {
    if lines.iter().any(|line| line.epoch > Timestamp::EPOCH && booking.granted_at <= line.epoch) {
        return Some(Settled::Dropped);
    }
    if !remember {
        return None;
    }
    let refunds = &mut lines[first_in_key_order(parties)].refunds;
    refunds.retain(|(_, expires)| *expires > now);
    if refunds.iter().any(|(permit, _)| *permit == booking.permit) {
        return Some(Settled::Repeated);
    }
    if refunds.len() >= REFUNDS_MAX {
        return Some(Settled::Dropped);
    }
    let limits = parties.iter().flat_map(|party| party.policy.limits());
    let longest = limits.map(Limit::longest_memory).max().unwrap_or_default();
    refunds.push((booking.permit, booking.at.plus(longest).max(now.plus(REFUND_REMEMBERED))));
    None
}

/// Corrects every limit of a line; says whether all could be.
///
/// `keep_buckets`: the place still lies ahead and others are booked on top of it, so what a bucket gave stays spent.
fn correct(
    party: &Party<'_>,
    line: &mut Line,
    booking: &Booking,
    actual: &Cost,
    keep_buckets: bool,
    now: Timestamp,
) -> bool {
    let when = now.max(line.as_of());
    let mut whole = true;
    let charges = party.policy.charges(party.cost).zip(party.policy.charges(actual));
    for ((limit, reserved), (_, actual)) in charges {
        let log = line.log_mut(limit);
        log.slots.retain(|(holder, _)| *holder != booking.permit);
        let too_late = match limit.algorithm() {
            Algorithm::Window(calendar) => !within(window_at(calendar, when), booking.at),
            Algorithm::FromFirstCall(period) => {
                !log.running(*period, when).is_some_and(|(window, _)| within(window, booking.at))
            }
            Algorithm::Sliding(period) => !within(multiple_of(*period, when), booking.at),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
                let age = when.since(booking.at);
                keep_buckets || (actual < reserved && refilled_since(limit, *period, age))
            }
            Algorithm::Concurrency { .. } => false,
        };
        if actual == reserved {
            continue;
        }
        if too_late {
            whole = false;
            continue;
        }
        let permit = booking.permit;
        log.entries.push(Entry { when, booked_at: booking.at, permit, minus: reserved, plus: actual });
    }
    line.bring_along(party.policy, now, None);
    line.undo = None;
    whole
}

/// Whether a whole burst has refilled in this time: then nothing of the permit is used any more.
fn refilled_since(limit: &Limit, period: Span, age: Span) -> bool {
    let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
    product(age.as_micros(), limit.amount()) > product(limit.capacity(), period.as_micros())
}

fn refuse_overrun(party: &Party<'_>, actual: &Cost) -> Result<(), Refusal> {
    for ((limit, reserved), (_, actual)) in party.policy.charges(party.cost).zip(party.policy.charges(actual))
    {
        let (overrun, burst) = (actual.saturating_sub(reserved), limit.capacity());
        if refills(limit) && overrun > burst {
            let (policy, limit) = (party.policy.name().clone(), limit.name().clone());
            return Err(Refusal::OverrunTooLarge { policy, limit, overrun, burst });
        }
    }
    Ok(())
}
