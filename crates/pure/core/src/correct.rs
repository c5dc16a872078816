//! What happens to a permit after its grant: settle, return, done, renew. And the reset of an account.

use crate::account::{Refund, RefundMemory};
use crate::algorithm::Correction;
use crate::bounds::REFUND_REMEMBERED;
use crate::decision::Refusal;
use crate::store::Settled;
use crate::take_once::first_in_key_order;
use crate::{Account, Booking, Charge, Cost, Limit, PermitId, Policy, Span, Timestamp};

/// Corrects the cost of a finished call to the actual one, and frees its slots.
///
/// A window is corrected only while the permit's own window runs. A bucket is corrected now: credits never exceed the
/// burst and stop once the permit is older than a full refill; an overrun is debited.
pub(crate) fn settle(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: Booking,
    actual: &[Cost],
    remember: bool,
    now: Timestamp,
) -> Result<Settled, Refusal> {
    for (charge, actual) in charges.iter().zip(actual).filter(|(charge, _)| !charge.policy.shadow()) {
        refuse_overrun(charge, actual)?;
    }
    let now = accounts.iter().fold(now, |now, account| now.max(account.seen));
    if let Some(answer) = known_refund(charges, accounts, booking, remember, now) {
        return Ok(answer);
    }
    let mut whole = true;
    for ((charge, account), actual) in charges.iter().zip(accounts).zip(actual) {
        let amount = |limit: usize| charge.policy.amounts(actual).nth(limit).map_or(0, |(_, amount)| amount);
        whole &= correct_account(charge, account, booking, |limit| Some(amount(limit)), now);
    }
    Ok(if whole { Settled::Whole } else { Settled::Partly })
}

/// Gives an unused permit back. The last booking is undone exactly if nothing has changed since.
/// Otherwise this is a settle to zero, except for buckets booked ahead: later bookings rely on those units.
pub(crate) fn give_back(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: Booking,
    remember: bool,
    now: Timestamp,
) -> Settled {
    let now = accounts.iter().fold(now, |now, account| now.max(account.seen));
    if let Some(answer) = known_refund(charges, accounts, booking, remember, now) {
        return answer;
    }
    let ahead = booking.at > now;
    let mut whole = true;
    for (charge, account) in charges.iter().zip(accounts) {
        forget_call(account, booking.permit);
        if undo(charge, account, booking.permit, now) {
            continue;
        }
        let stays = |policy: &Policy, limit: usize| ahead && refills(policy, limit);
        whole &= correct_account(
            charge,
            account,
            booking,
            |limit| (!stays(&charge.policy, limit)).then_some(0),
            now,
        );
    }
    if whole { Settled::Whole } else { Settled::Partly }
}

/// Frees the slots of a permit. Returns whether it still held any; if not, nothing changes.
pub(crate) fn done(charges: &[Charge], accounts: &mut [Account], permit: PermitId, now: Timestamp) -> bool {
    let held = charges.iter().zip(accounts.iter()).any(|(charge, account)| {
        let now = now.max(account.seen);
        charge
            .policy
            .limits()
            .iter()
            .zip(&*account.meters)
            .any(|(limit, meter)| limit.holds_slot(meter, permit, now))
    });
    if held {
        free_slots(charges, accounts, permit);
    }
    held
}

/// Frees the slots of a permit, expired ones too.
pub(crate) fn free_slots(charges: &[Charge], accounts: &mut [Account], permit: PermitId) {
    for (charge, account) in charges.iter().zip(accounts) {
        for (limit, meter) in charge.policy.limits().iter().zip(&mut *account.meters) {
            limit.free(meter, permit);
        }
        account.update_expiry(&charge.policy);
    }
}

/// Extends the slots of a permit. Returns whether it still held all of them; if not, nothing changes.
pub(crate) fn renew(charges: &[Charge], accounts: &mut [Account], permit: PermitId, now: Timestamp) -> bool {
    let now = accounts.iter().fold(now, |now, account| now.max(account.seen));
    let held = charges.iter().zip(accounts.iter()).all(|(charge, account)| {
        let mut meters = charge.policy.limits().iter().zip(&*account.meters);
        meters.all(|(limit, meter)| !limit.has_slots() || limit.holds_slot(meter, permit, now))
    });
    if !held {
        return false;
    }
    for (charge, account) in charges.iter().zip(accounts) {
        account.advance_to(&charge.policy, now);
        for (limit, meter) in charge.policy.limits().iter().zip(&mut *account.meters) {
            limit.renew(meter, permit, now);
        }
        account.update_expiry(&charge.policy);
    }
    true
}

/// Resets accounts. Permits granted before cannot be settled afterwards; callers' ids still count once.
pub(crate) fn reset(charges: &[Charge], accounts: &mut [Account], now: Timestamp) {
    for (charge, account) in charges.iter().zip(accounts) {
        let mut new = Account::new(&charge.policy);
        new.seen = now.max(account.seen);
        let seen = new.seen;
        let extra = new.extra_mut();
        extra.reset_at = seen;
        // Outlives every permit granted before, also one that was booked ahead.
        extra.reset_expires = seen.max(account.frontier()).plus(longest_memory(std::slice::from_ref(charge)));
        extra.calls = account.extra.take().map(|extra| extra.calls).unwrap_or_default();
        new.update_expiry(&charge.policy);
        *account = new;
    }
}

/// The answer if nothing must change: the account was reset since, the permit was refunded before, or no more
/// refunds can be remembered.
fn known_refund(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: Booking,
    remember: bool,
    now: Timestamp,
) -> Option<Settled> {
    let reset_since =
        |account: &Account| account.reset_at() > Timestamp::EPOCH && booking.granted_at <= account.reset_at();
    if accounts.iter().any(reset_since) {
        return Some(Settled::Dropped);
    }
    if !remember {
        return None;
    }
    let keeper = first_in_key_order(charges);
    let (charge, account) = charges.get(keeper).zip(accounts.get_mut(keeper))?;
    let expires = booking.at.plus(longest_memory(charges)).max(now.plus(REFUND_REMEMBERED));
    let refund = Refund { permit: booking.permit, expires };
    let memory = account.extra_mut().remember_refund(refund, now);
    account.update_expiry(&charge.policy);
    match memory {
        RefundMemory::First => None,
        RefundMemory::Repeated => Some(Settled::Repeated),
        RefundMemory::Full => Some(Settled::Dropped),
    }
}

/// Corrects every limit of one account. `actual` returns `None` for a limit whose units must stay spent.
fn correct_account(
    charge: &Charge,
    account: &mut Account,
    booking: Booking,
    actual: impl Fn(usize) -> Option<u64>,
    now: Timestamp,
) -> bool {
    let as_of = account.as_of();
    let to = now.max(as_of);
    let mut whole = true;
    for (index, ((limit, reserved), meter)) in charge.amounts().zip(&mut *account.meters).enumerate() {
        limit.advance(meter, as_of, to);
        limit.free(meter, booking.permit);
        if limit.has_slots() {
            continue;
        }
        let Some(actual) = actual(index) else {
            whole &= reserved == 0;
            continue;
        };
        if actual != reserved {
            whole &= limit.settle(meter, Correction { booked_at: booking.at, reserved, actual }, to);
        }
    }
    account.seen = now;
    account.drop_past();
    account.update_expiry(&charge.policy);
    whole
}

/// Forgets the caller's id of a returned permit, so that the same id takes again.
fn forget_call(account: &mut Account, permit: PermitId) {
    if let Some(extra) = &mut account.extra {
        extra.calls.forget(permit);
        account.drop_empty_extra();
    }
}

/// Restores the state before the last booking, if that was this permit's and nothing has changed since.
fn undo(charge: &Charge, account: &mut Account, permit: PermitId, now: Timestamp) -> bool {
    let last = account.extra.as_mut().and_then(|extra| extra.undo.take_if(|undo| undo.permit == permit));
    let Some(undo) = last else { return false };
    account.meters = undo.meters;
    let extra = account.extra_mut();
    (extra.frontier, extra.frontier_limit) = (undo.frontier, undo.frontier_limit);
    account.seen = now;
    let to = account.as_of();
    for (limit, meter) in charge.policy.limits().iter().zip(&mut *account.meters) {
        limit.advance(meter, undo.as_of, to);
    }
    account.drop_empty_extra();
    account.update_expiry(&charge.policy);
    true
}

fn refuse_overrun(charge: &Charge, actual: &Cost) -> Result<(), Refusal> {
    let amounts = charge.amounts().zip(charge.policy.amounts(actual));
    for ((limit, reserved), (_, actual)) in amounts {
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
