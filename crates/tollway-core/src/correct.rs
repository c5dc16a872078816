//! What happens to a permit after its grant: settled, returned, done, renewed. And a line made new.

use crate::account::{Refund, RefundMemory};
use crate::algorithm::Correction;
use crate::apply::first_in_key_order;
use crate::bounds::REFUND_REMEMBERED;
use crate::decision::Refusal;
use crate::store::Settled;
use crate::{Account, Booking, Charge, Cost, Limit, PermitId, Policy, Span, Timestamp};

/// Corrects the cost once the actual one is known, and frees the slots: the call is over.
///
/// A window is put right in the window the permit was booked in; once that is past, nothing. A bucket is put right now:
/// credited never above its burst and not once the permit is older than a full refill; an overrun is debt.
pub(crate) fn settle(
    charges: &[Charge],
    lines: &mut [Account],
    booking: Booking,
    actual: &[Cost],
    remember: bool,
    now: Timestamp,
) -> Result<Settled, Refusal> {
    for (charge, actual) in charges.iter().zip(actual).filter(|(charge, _)| !charge.policy.shadow()) {
        refuse_overrun(charge, actual)?;
    }
    let now = lines.iter().fold(now, |now, line| now.max(line.seen));
    if let Some(answer) = known_refund(charges, lines, booking, remember, now) {
        return Ok(answer);
    }
    let mut whole = true;
    for ((charge, line), actual) in charges.iter().zip(lines).zip(actual) {
        whole &= correct_line(charge, line, booking, |_| Some(actual), now);
    }
    Ok(if whole { Settled::Whole } else { Settled::Partly })
}

/// Gives an unused permit back: exactly, if it was the last booking and nothing has changed since; else as a settle to
/// nothing, but for buckets whose place still lies ahead, where others have been booked on top of it.
pub(crate) fn give_back(
    charges: &[Charge],
    lines: &mut [Account],
    booking: Booking,
    remember: bool,
    now: Timestamp,
) -> Settled {
    let now = lines.iter().fold(now, |now, line| now.max(line.seen));
    if let Some(answer) = known_refund(charges, lines, booking, remember, now) {
        return answer;
    }
    let nothing = Cost::default();
    let ahead = booking.at > now;
    let mut whole = true;
    for (charge, line) in charges.iter().zip(lines) {
        forget_call(line, booking.permit);
        if undo(charge, line, booking.permit, now) {
            continue;
        }
        let stays = |policy: &Policy, limit: usize| ahead && refills(policy, limit);
        whole &= correct_line(
            charge,
            line,
            booking,
            |limit| (!stays(&charge.policy, limit)).then_some(&nothing),
            now,
        );
    }
    if whole { Settled::Whole } else { Settled::Partly }
}

/// Frees the slots of a permit, if it still holds any; else changes nothing and says so.
pub(crate) fn done(charges: &[Charge], lines: &mut [Account], permit: PermitId, now: Timestamp) -> bool {
    let held = charges.iter().zip(lines.iter()).any(|(charge, line)| {
        let now = now.max(line.seen);
        charge
            .policy
            .limits()
            .iter()
            .zip(&*line.meters)
            .any(|(limit, meter)| limit.holds_slot(meter, permit, now))
    });
    if held {
        free_slots(charges, lines, permit);
    }
    held
}

/// Frees the slots of a permit, also those that have expired.
pub(crate) fn free_slots(charges: &[Charge], lines: &mut [Account], permit: PermitId) {
    for (charge, line) in charges.iter().zip(lines) {
        for (limit, meter) in charge.policy.limits().iter().zip(&mut *line.meters) {
            limit.free(meter, permit);
        }
        line.note_expiry(&charge.policy);
    }
}

/// Keeps the slots of a permit, if it still holds all of them; else changes nothing and says so.
pub(crate) fn renew(charges: &[Charge], lines: &mut [Account], permit: PermitId, now: Timestamp) -> bool {
    let now = lines.iter().fold(now, |now, line| now.max(line.seen));
    let held = charges.iter().zip(lines.iter()).all(|(charge, line)| {
        let mut meters = charge.policy.limits().iter().zip(&*line.meters);
        meters.all(|(limit, meter)| !limit.has_slots() || limit.holds_slot(meter, permit, now))
    });
    if !held {
        return false;
    }
    for (charge, line) in charges.iter().zip(lines) {
        line.bring_to(&charge.policy, now);
        for (limit, meter) in charge.policy.limits().iter().zip(&mut *line.meters) {
            limit.renew(meter, permit, now);
        }
        line.note_expiry(&charge.policy);
    }
    true
}

/// Makes lines new. Permits granted before settle nothing afterwards; callers' ids still count once.
pub(crate) fn reset(charges: &[Charge], lines: &mut [Account], now: Timestamp) {
    for (charge, line) in charges.iter().zip(lines) {
        let mut new = Account::new(&charge.policy);
        new.seen = now.max(line.seen);
        let seen = new.seen;
        let extra = new.extra_mut();
        extra.epoch = seen;
        // Until no permit from before can matter any more, not even one that was booked ahead.
        extra.epoch_expires = seen.max(line.frontier()).plus(longest_memory(std::slice::from_ref(charge)));
        extra.calls = line.extra.take().map(|extra| extra.calls).unwrap_or_default();
        new.note_expiry(&charge.policy);
        *line = new;
    }
}

/// The answer without any change: the line was reset since, or this permit was refunded before, or none more fit.
fn known_refund(
    charges: &[Charge],
    lines: &mut [Account],
    booking: Booking,
    remember: bool,
    now: Timestamp,
) -> Option<Settled> {
    let reset_since = |line: &Account| line.epoch() > Timestamp::EPOCH && booking.granted_at <= line.epoch();
    if lines.iter().any(reset_since) {
        return Some(Settled::Dropped);
    }
    if !remember {
        return None;
    }
    let keeper = first_in_key_order(charges);
    let (charge, line) = charges.get(keeper).zip(lines.get_mut(keeper))?;
    let expires = booking.at.plus(longest_memory(charges)).max(now.plus(REFUND_REMEMBERED));
    let refund = Refund { permit: booking.permit, expires };
    let memory = line.extra_mut().remember_refund(refund, now);
    line.note_expiry(&charge.policy);
    match memory {
        RefundMemory::First => None,
        RefundMemory::Repeated => Some(Settled::Repeated),
        RefundMemory::Full => Some(Settled::Dropped),
    }
}

/// Puts every limit of one line right; `actual` answers nothing for a limit whose units must stay spent.
fn correct_line<'a>(
    charge: &Charge,
    line: &mut Account,
    booking: Booking,
    actual: impl Fn(usize) -> Option<&'a Cost>,
    now: Timestamp,
) -> bool {
    let as_of = line.as_of();
    let to = now.max(as_of);
    let mut whole = true;
    for (index, ((limit, reserved), meter)) in charge.amounts().zip(&mut *line.meters).enumerate() {
        limit.advance(meter, as_of, to);
        limit.free(meter, booking.permit);
        if limit.has_slots() {
            continue;
        }
        let charge_of = |cost: &Cost| charge.policy.amounts(cost).nth(index).map_or(0, |(_, amount)| amount);
        let Some(actual) = actual(index).map(charge_of) else {
            whole &= reserved == 0;
            continue;
        };
        if actual != reserved {
            whole &= limit.settle(meter, Correction { booked_at: booking.at, reserved, actual }, to);
        }
    }
    line.seen = now;
    line.drop_undo();
    line.note_expiry(&charge.policy);
    whole
}

/// An id whose permit was given back takes again: what it was granted is no longer its.
fn forget_call(line: &mut Account, permit: PermitId) {
    if let Some(extra) = &mut line.extra {
        extra.calls.retain(|call| call.grant.permit != permit);
        line.drop_empty_extra();
    }
}

/// Restores the state before the last booking, if it was this permit's and nothing has changed since.
fn undo(charge: &Charge, line: &mut Account, permit: PermitId, now: Timestamp) -> bool {
    let last = line.extra.as_mut().and_then(|extra| extra.undo.take_if(|undo| undo.permit == permit));
    let Some(undo) = last else { return false };
    line.meters = undo.meters;
    let extra = line.extra_mut();
    (extra.frontier, extra.frontier_limit) = (undo.frontier, undo.frontier_limit);
    line.seen = now;
    let to = line.as_of();
    for (limit, meter) in charge.policy.limits().iter().zip(&mut *line.meters) {
        limit.advance(meter, undo.as_of, to);
    }
    line.drop_empty_extra();
    line.note_expiry(&charge.policy);
    true
}

fn refuse_overrun(charge: &Charge, actual: &Cost) -> Result<(), Refusal> {
    let charges = charge.amounts().zip(charge.policy.amounts(actual));
    for ((limit, reserved), (_, actual)) in charges {
        let overrun = actual.saturating_sub(reserved);
        if overrun > limit.overrun_max() {
            let (policy, limit, burst) =
                (charge.policy.name().clone(), limit.name().clone(), limit.capacity());
            return Err(Refusal::OverrunTooLarge { policy, limit, overrun, burst });
        }
    }
    Ok(())
}

fn refills(policy: &Policy, limit: usize) -> bool {
    policy.limits().get(limit).is_some_and(Limit::refills)
}

fn longest_memory(charges: &[Charge]) -> Span {
    let limits = charges.iter().flat_map(|charge| charge.policy.limits());
    limits.map(|limit| limit.longest_memory()).max().unwrap_or_default()
}
