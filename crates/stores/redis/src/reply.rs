//! The script's answer as the engine's outcomes. A charge or limit that the script names by its index is looked up here.

use std::sync::Arc;

use smallvec::SmallVec;
use tollway_core::{
    Action, Begun, Booking, CallId, Charge, ChargeStatus, Decision, Denial, Learned, LearnedRate, Limit,
    Operation, Outcome, Outcomes, PermitId, Reading, Refusal, Settled, Span, TakeOutcome, Timestamp,
};

use crate::pack::Packed;

/// The outcomes of these operations; nothing if the bytes are not that.
pub(crate) fn outcomes(bytes: &[u8], operations: &[Operation]) -> Option<Outcomes> {
    let packed = Packed::read(bytes)?;
    let list = packed.list()?;
    if list.len() != operations.len() {
        return None;
    }
    operations.iter().zip(list).map(|(operation, packed)| outcome(packed.list()?, operation)).collect()
}

pub(crate) fn outcome(packed: &[Packed], operation: &Operation) -> Option<Outcome> {
    let (kind, rest) = packed.split_first()?;
    let again = |packed: &Packed| decision(packed.list()?, &operation.charges);
    Some(match (kind.text()?, rest) {
        (b"granted" | b"denied", _) => Outcome::Decided(decision(packed, &operation.charges)?),
        (b"now", []) => Outcome::Begun(Begun::Now),
        (b"early", [wait]) => Outcome::Begun(Begun::Early(Span::from_micros(wait.number()?))),
        (b"again", [decided]) => Outcome::Begun(Begun::Again(again(decided)?)),
        (b"settled", [how]) => Outcome::Settled(settled(how.text()?)?),
        (b"done", [held]) => Outcome::Done(held.boolean()?),
        (b"renewed", [held]) => Outcome::Renewed(held.boolean()?),
        (b"peeked", [shown]) => Outcome::Peeked(statuses(shown, &operation.charges)?),
        (b"reset", []) => Outcome::Reset,
        (b"learned", [now, held, written, rate]) => Outcome::Learned(Learned {
            now: time(now)?,
            held_until: held_until(held)?,
            rate: rate.list().map(learned_rate).map_or(Some(None), |rate| rate.map(Some))?,
            written: written.boolean()?,
        }),
        (b"refused", [why, rest @ ..]) => Outcome::Refused(refusal(why.text()?, rest, operation)?),
        _ => return None,
    })
}

fn decision(packed: &[Packed], charges: &[Charge]) -> Option<Decision> {
    match packed {
        [kind, permit, granted_at, now, at, good_until, repeated, over, would_deny, shown, made @ ..]
            if kind.text()? == b"granted" =>
        {
            let booking = Booking {
                permit: PermitId(u128::from_be_bytes(permit.text()?.try_into().ok()?)),
                granted_at: time(granted_at)?,
                at: time(at)?,
                good_until: time(good_until)?,
            };
            Some(Decision {
                repeated: repeated.boolean()?,
                over: over.boolean()?,
                would_deny: would_deny.number()?.try_into().ok()?,
                charges: statuses(shown, charges)?,
                accounts_made: made.first().map_or(Some(0), Packed::number)?.try_into().ok()?,
                ..Decision::new(time(now)?, TakeOutcome::Granted(booking))
            })
        }
        [kind, now, retry_at, charge, limit, shown, held @ ..] if kind.text()? == b"denied" => {
            let denial = Denial {
                retry_at: time(retry_at)?,
                charge: usize::try_from(charge.number()?).ok()?,
                limit: usize::try_from(limit.number()?).ok()?,
                held: held.first().is_some_and(|held| held.boolean() == Some(true)),
            };
            let charges = statuses(shown, charges)?;
            Some(Decision { charges, ..Decision::new(time(now)?, TakeOutcome::Denied(denial)) })
        }
        _ => None,
    }
}

/// Of each limit what is used, when it resets, the time of the reading and, if it is adaptive, the burst and the grants; then
/// the end of the hold on each charge. One flat list; empty if they were not requested. The layout consumers has no holds.
pub(crate) fn statuses(packed: &Packed, charges: &[Charge]) -> Option<SmallVec<[ChargeStatus; 1]>> {
    let Some(shown) = packed.list() else { return Some(SmallVec::new()) };
    let mut shown = shown.iter();
    let status = |charge: &Charge| {
        let readings = charge.policy.limits().iter().map(|limit| reading(limit, &mut shown));
        let (policy, readings) = (Arc::clone(&charge.policy), readings.collect::<Option<_>>()?);
        Some(ChargeStatus { policy, readings, held_until: None })
    };
    let mut statuses = charges.iter().map(status).collect::<Option<SmallVec<[ChargeStatus; 1]>>>()?;
    for (status, held) in statuses.iter_mut().zip(shown) {
        status.held_until = held_until(held)?;
    }
    Some(statuses)
}

fn reading<'p>(limit: &Limit, shown: &mut impl Iterator<Item = &'p Packed>) -> Option<Reading> {
    let (used, resets_at, as_of) = (shown.next()?.number()?, time(shown.next()?)?, time(shown.next()?)?);
    let (capacity, grants) = match limit.is_adaptive() {
        true => (shown.next()?.number()?, shown.next()?.number()?),
        false => (limit.capacity(), 0),
    };
    Some(Reading { capacity, used, remaining: capacity.saturating_sub(used), resets_at, as_of, grants })
}

fn learned_rate(packed: &[Packed]) -> Option<LearnedRate> {
    let [rate, burst, available, grants, version, cut, cut_at, controller] = packed else { return None };
    Some(LearnedRate {
        rate: rate.number()?,
        burst: burst.number()?,
        available: available.number()?,
        grants: grants.number()?,
        version: version.number()?,
        cut: cut.number()?,
        cut_at: time(cut_at)?,
        controller: String::from_utf8(controller.text()?.to_vec()).ok()?,
    })
}

/// The end of a hold; 0 is none.
#[allow(clippy::option_option, reason = "unreadable, or none")]
fn held_until(packed: &Packed) -> Option<Option<Timestamp>> {
    time(packed).map(|until| Some(until).filter(|until| *until > Timestamp::EPOCH))
}

fn settled(how: &[u8]) -> Option<Settled> {
    Some(match how {
        b"whole" => Settled::Whole,
        b"partly" => Settled::Partly,
        b"repeated" => Settled::Repeated,
        b"dropped" => Settled::Dropped,
        _ => return None,
    })
}

fn refusal(why: &[u8], rest: &[Packed], operation: &Operation) -> Option<Refusal> {
    let charge = || operation.charges.get(usize::try_from(rest.first()?.number()?).ok()?);
    let index = || usize::try_from(rest.get(1)?.number()?).ok();
    Some(match why {
        b"above_limit" => {
            let (charge, index) = (charge()?, index()?);
            let (limit, cost) = charge.amounts().nth(index)?;
            let (policy, name) = (charge.policy.name().clone(), limit.name().clone());
            Refusal::AboveLimit { policy, limit: name, cost, capacity: limit.capacity() }
        }
        b"overrun" => {
            let (charge, index) = (charge()?, index()?);
            let limit = charge.policy.limits().get(index)?;
            let (policy, name) = (charge.policy.name().clone(), limit.name().clone());
            let overrun = rest.get(2)?.number()?;
            Refusal::OverrunTooLarge { policy, limit: name, overrun, burst: limit.capacity() }
        }
        b"same_party" => {
            let charge = charge()?;
            let (policy, subject) = (charge.policy.name().clone(), charge.subject.clone());
            Refusal::SameChargeTwice { policy, subject }
        }
        b"party_count" => Refusal::ChargeCount(operation.charges.len()),
        b"id_reused" => Refusal::IdReused(call_id(operation)?.to_string()),
        b"call_over" => Refusal::CallOver(call_id(operation)?.to_string()),
        b"too_many_ids" => Refusal::TooManyIds,
        b"controller_too_long" => Refusal::ControllerTooLong(usize::try_from(rest.first()?.number()?).ok()?),
        _ => return None,
    })
}

fn call_id(operation: &Operation) -> Option<CallId> {
    match &operation.action {
        Action::Take(terms) | Action::Preview(terms) => terms.call.clone(),
        Action::Begin(booking, _) => Some(CallId::of_second_take(booking.permit)),
        _ => None,
    }
}

pub(crate) fn time(packed: &Packed) -> Option<Timestamp> {
    packed.number().map(Timestamp::from_micros)
}
