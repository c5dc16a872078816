//! One operation on the lines it names: what every store calls while it holds them.

use smallvec::SmallVec;

use crate::account::{RememberedCall, RememberedGrant};
use crate::bounds::{CALL_ID_REMEMBERED, CHARGES_PER_TAKE_MAX};
use crate::correct::{done, free_slots, give_back, renew, reset, settle};
use crate::decide::{decide, read_all};
use crate::decision::{Decision, Refusal, TakeOutcome};
use crate::fingerprint::Fingerprint;
use crate::store::{Begun, Outcome, Settled};
use crate::{Account, Action, Booking, CallId, Charge, Operation, PermitId, Terms, Timestamp};

/// What came of an operation, and whether the lines must be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// What to answer.
    pub outcome: Outcome,
    /// Whether a line has changed. If not, a store need not write, and must not create, any line.
    pub changed: bool,
}

/// Applies one operation to the lines of its charges (`lines[i]` is that of `charges[i]`), at the store's time.
pub fn apply(operation: &Operation, lines: &mut [Account], now: Timestamp) -> Applied {
    let fitted = operation.charges.iter().zip(lines.iter()).all(|(charge, line)| line.fits(&charge.policy));
    if !fitted {
        return apply_to_changed_policy(operation, lines, now);
    }
    apply_fitted(operation, lines, now)
}

/// The limits of a policy have changed since a line was written: its meters are rearranged, and kept so only if the
/// operation changes the line anyway.
#[cold]
fn apply_to_changed_policy(operation: &Operation, lines: &mut [Account], now: Timestamp) -> Applied {
    let before = lines.to_vec();
    operation.charges.iter().zip(lines.iter_mut()).for_each(|(charge, line)| line.fit(&charge.policy));
    let applied = apply_fitted(operation, lines, now);
    let denied = matches!(&applied.outcome, Outcome::Decided(decision) if !decision.is_granted());
    if denied || !applied.changed {
        // A denial may have made them live longer, and nothing else.
        let longer = lines.iter().map(|line| line.expires).zip(before);
        let longer: Vec<Account> =
            longer.map(|(expires, line)| Account { expires: expires.max(line.expires), ..line }).collect();
        lines.clone_from_slice(&longer);
    }
    applied
}

fn apply_fitted(operation: &Operation, lines: &mut [Account], now: Timestamp) -> Applied {
    let refused = |refusal| Applied { outcome: Outcome::Refused(refusal), changed: false };
    try_apply(operation, lines, now).unwrap_or_else(refused)
}

fn try_apply(operation: &Operation, lines: &mut [Account], now: Timestamp) -> Result<Applied, Refusal> {
    let charges = &*operation.charges;
    check_charges(charges)?;
    let (outcome, changed) = match &operation.action {
        Action::Take(terms) => {
            let decision = take(charges, lines, terms, now)?;
            let changed = match decision.outcome {
                TakeOutcome::Granted(_) => changes(&decision),
                TakeOutcome::Denied(_) => keep_longer(charges, lines),
            };
            (Outcome::Decided(decision), changed)
        }
        Action::Preview(terms) => {
            let mut foreseen = lines.to_vec();
            (Outcome::Decided(take(charges, &mut foreseen, terms, now)?), false)
        }
        Action::Begin(booking, terms) => {
            let begun = begin(charges, lines, *booking, terms, now)?;
            let changed = matches!(&begun, Begun::Again(decision) if changes(decision));
            (Outcome::Begun(begun), changed)
        }
        Action::Settle { booking, actual, remember } => {
            let settled = settle(charges, lines, *booking, actual, *remember, now)?;
            (Outcome::Settled(settled), matches!(settled, Settled::Whole | Settled::Partly))
        }
        Action::Return { booking, remember } => {
            let settled = give_back(charges, lines, *booking, *remember, now);
            (Outcome::Settled(settled), matches!(settled, Settled::Whole | Settled::Partly))
        }
        Action::Done(permit) => {
            let held = done(charges, lines, *permit, now);
            (Outcome::Done(held), held)
        }
        Action::Renew(permit) => {
            let held = renew(charges, lines, *permit, now);
            (Outcome::Renewed(held), held)
        }
        Action::Peek => {
            let now = lines.iter().fold(now, |now, line| now.max(line.seen));
            (Outcome::Peeked(read_all(charges, lines, now)), false)
        }
        Action::Reset => {
            reset(charges, lines, now);
            (Outcome::Reset, true)
        }
    };
    Ok(Applied { outcome, changed })
}

/// A take, counted once if the caller gave it an id.
fn take(
    charges: &[Charge],
    lines: &mut [Account],
    terms: &Terms,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let Some(call) = &terms.call else { return decide(charges, lines, terms, now) };
    let keeper = first_in_key_order(charges);
    let asked = fingerprint(charges);
    let known_at = lines.iter().fold(now, |now, line| now.max(line.seen));
    if let Some(extra) = lines.get(keeper).and_then(|line| line.extra.as_deref()) {
        if let Some(known) = extra.call(call, known_at) {
            let grant = known.grant;
            return if known.asked != asked {
                Err(Refusal::IdReused(call.to_string()))
            } else if !holds_all_slots(charges, lines, grant.permit, known_at) {
                Err(Refusal::CallOver(call.to_string()))
            } else {
                Ok(repeat(grant, charges, lines, terms, known_at))
            };
        }
        if !extra.has_room_for_call(known_at) {
            return Err(Refusal::TooManyIds);
        }
    }
    let decision = decide(charges, lines, terms, now)?;
    if let (Some(booking), Some((charge, line))) =
        (decision.booking(), charges.get(keeper).zip(lines.get_mut(keeper)))
    {
        let Booking { permit, granted_at, at, good_until } = *booking;
        let would_deny = decision.would_deny;
        let grant = RememberedGrant { permit, granted_at, at, good_until, would_deny };
        let expires = decision.now.plus(CALL_ID_REMEMBERED);
        let call = RememberedCall { id: call.clone(), asked, grant, expires };
        line.bring_to(&charge.policy, decision.now);
        line.extra_mut().remember_call(call, decision.now);
        line.note_expiry(&charge.policy);
    }
    Ok(decision)
}

/// Whether a permit still has every slot it was granted; true where there are none to have.
fn holds_all_slots(charges: &[Charge], lines: &[Account], permit: PermitId, now: Timestamp) -> bool {
    charges.iter().zip(lines).filter(|(charge, _)| !charge.policy.shadow()).all(|(charge, line)| {
        let mut meters = charge.policy.limits().iter().zip(&*line.meters);
        meters.all(|(limit, meter)| !limit.has_slots() || limit.holds_slot(meter, permit, now))
    })
}

fn repeat(
    grant: RememberedGrant,
    charges: &[Charge],
    lines: &[Account],
    terms: &Terms,
    now: Timestamp,
) -> Decision {
    let RememberedGrant { permit, granted_at, at, good_until, would_deny } = grant;
    let outcome = TakeOutcome::Granted(Booking { permit, granted_at, at, good_until });
    let mut decision = Decision { repeated: true, would_deny, ..Decision::new(now, outcome) };
    if terms.readings {
        decision.charges = read_all(charges, lines, now);
    }
    decision
}

/// Free while the permit is good; too late, it takes again at the back of the line, once however often it is repeated.
fn begin(
    charges: &[Charge],
    lines: &mut [Account],
    booking: Booking,
    terms: &Terms,
    now: Timestamp,
) -> Result<Begun, Refusal> {
    let now = lines.iter().fold(now, |now, line| now.max(line.seen));
    if now < booking.at {
        return Ok(Begun::Early(booking.at.since(now)));
    }
    if now < booking.good_until || still_good(charges, lines, booking, now) {
        return Ok(Begun::Now);
    }
    let second = CallId::of_second_take(booking.permit);
    // It must not stand in its own way: the slots it held are free for it, if it is granted.
    let before = lines.to_vec();
    free_slots(charges, lines, booking.permit);
    let taken = take(charges, lines, &Terms { call: Some(second), ..terms.clone() }, now);
    if !taken.as_ref().is_ok_and(changes) {
        lines.clone_from_slice(&before);
    }
    taken.map(Begun::Again)
}

/// A permit that holds slots may have kept them beyond the time it was granted for; then only its windows end it.
fn still_good(charges: &[Charge], lines: &[Account], booking: Booking, now: Timestamp) -> bool {
    charges.iter().any(|charge| charge.policy.holds_slots())
        && charges.iter().zip(lines).all(|(charge, line)| {
            let edge = charge.policy.edge();
            charge.amounts().zip(&*line.meters).all(|((limit, amount), meter)| {
                amount == 0 || limit.still_good(meter, booking.permit, booking.at, now, edge)
            })
        })
}

/// A denial changes no meter. But a line whose rate was lowered since must not be forgotten as early as it says (I6).
fn keep_longer(charges: &[Charge], lines: &mut [Account]) -> bool {
    let mut longer = false;
    for (charge, line) in charges.iter().zip(lines) {
        longer |= line.keep_longer(&charge.policy);
    }
    longer
}

fn changes(decision: &Decision) -> bool {
    decision.is_granted() && !decision.repeated
}

fn check_charges(charges: &[Charge]) -> Result<(), Refusal> {
    if charges.len() == 1 {
        return Ok(());
    }
    if charges.is_empty() || charges.len() > CHARGES_PER_TAKE_MAX {
        return Err(Refusal::ChargeCount(charges.len()));
    }
    for (index, charge) in charges.iter().enumerate() {
        let same =
            |other: &Charge| other.policy.name() == charge.policy.name() && other.subject == charge.subject;
        if charges.iter().skip(index.saturating_add(1)).any(same) {
            let (policy, subject) = (charge.policy.name().clone(), charge.subject.clone());
            return Err(Refusal::SameChargeTwice { policy, subject });
        }
    }
    Ok(())
}

/// Which line keeps a take's id: the same one whatever the order in which the caller names the charges.
pub(crate) fn first_in_key_order(charges: &[Charge]) -> usize {
    let keys =
        charges.iter().enumerate().map(|(index, charge)| ((charge.policy.name(), &charge.subject), index));
    keys.min().map_or(0, |(_, index)| index)
}

/// What was asked, whatever the order in which the caller names the charges.
fn fingerprint(charges: &[Charge]) -> u64 {
    let mut in_key_order: SmallVec<[&Charge; 4]> = charges.iter().collect();
    in_key_order.sort_unstable_by_key(|charge| (charge.policy.name(), &charge.subject));
    let with_charge = |print: Fingerprint, charge: &&Charge| {
        let print = print.text(charge.policy.name().as_str()).text(charge.subject.as_str());
        let charges = charge.amounts();
        charges.fold(print, |print, (limit, amount)| print.number(limit.identity().into()).number(amount))
    };
    in_key_order.iter().fold(Fingerprint::new(), with_charge).finish()
}
