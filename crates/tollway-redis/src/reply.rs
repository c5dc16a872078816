//! The script's answer, put into the engine's words. What only names a party or a limit by its index is looked up here.

use tollway_core::{
    Begun, CallId, Decision, Denial, Grant, Outcome, Outcomes, OwnedOperation, OwnedParty, OwnedVerb,
    PermitId, Reading, Refusal, Settled, Span, Timestamp,
};

use crate::pack::Packed;

/// The outcomes of these operations; nothing if the bytes are not that.
pub(crate) fn outcomes(bytes: &[u8], operations: &[OwnedOperation]) -> Option<Outcomes> {
    let packed = Packed::read(bytes)?;
    let list = packed.list()?;
    if list.len() != operations.len() {
        return None;
    }
    operations.iter().zip(list).map(|(operation, packed)| outcome(packed.list()?, operation)).collect()
}

pub(crate) fn outcome(packed: &[Packed], operation: &OwnedOperation) -> Option<Outcome> {
    let (kind, rest) = packed.split_first()?;
    let again = |packed: &Packed| decision(packed.list()?, &operation.parties);
    Some(match (kind.text()?, rest) {
        (b"granted" | b"denied", _) => Outcome::Decided(decision(packed, &operation.parties)?),
        (b"now", []) => Outcome::Begun(Begun::Now),
        (b"early", [wait]) => Outcome::Begun(Begun::Early(Span::from_micros(wait.number()?))),
        (b"again", [decided]) => Outcome::Begun(Begun::Again(again(decided)?)),
        (b"settled", [how]) => Outcome::Settled(settled(how.text()?)?),
        (b"done", [held]) => Outcome::Done(held.boolean()?),
        (b"renewed", [held]) => Outcome::Renewed(held.boolean()?),
        (b"peeked", [shown]) => Outcome::Peeked(readings(shown, &operation.parties)?),
        (b"reset", []) => Outcome::Reset,
        (b"refused", [why, rest @ ..]) => Outcome::Refused(refusal(why.text()?, rest, operation)?),
        _ => return None,
    })
}

fn decision(packed: &[Packed], parties: &[OwnedParty]) -> Option<Decision> {
    match packed {
        [kind, permit, granted_at, now, at, good_until, repeated, over, would_deny, shown]
            if kind.text()? == b"granted" =>
        {
            Some(Decision::Granted(Grant {
                permit: PermitId(u128::from_be_bytes(permit.text()?.try_into().ok()?)),
                granted_at: time(granted_at)?,
                now: time(now)?,
                at: time(at)?,
                good_until: time(good_until)?,
                repeated: repeated.boolean()?,
                over: over.boolean()?,
                would_deny: would_deny.number()?.try_into().ok()?,
                readings: readings(shown, parties)?,
            }))
        }
        [kind, now, retry_at, party, limit, shown] if kind.text()? == b"denied" => {
            Some(Decision::Denied(Denial {
                now: time(now)?,
                retry_at: time(retry_at)?,
                party: usize::try_from(party.number()?).ok()?,
                limit: usize::try_from(limit.number()?).ok()?,
                readings: readings(shown, parties)?,
            }))
        }
        _ => None,
    }
}

/// Used, resets_at and as_of of each limit of each party; none if they were not asked for.
fn readings(packed: &Packed, parties: &[OwnedParty]) -> Option<Vec<Reading>> {
    let Some(shown) = packed.list() else { return Some(Vec::new()) };
    let limits = parties.iter().flat_map(|party| party.policy.limits());
    limits
        .zip(shown.chunks_exact(3))
        .map(|(limit, shown)| {
            let [used, resets_at, as_of] = shown else { return None };
            let (capacity, used) = (limit.capacity(), used.number()?);
            let remaining = capacity.saturating_sub(used);
            Some(Reading { capacity, used, remaining, resets_at: time(resets_at)?, as_of: time(as_of)? })
        })
        .collect()
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

fn refusal(why: &[u8], rest: &[Packed], operation: &OwnedOperation) -> Option<Refusal> {
    let party = || operation.parties.get(usize::try_from(rest.first()?.number()?).ok()?);
    let index = || usize::try_from(rest.get(1)?.number()?).ok();
    Some(match why {
        b"above_limit" => {
            let (party, index) = (party()?, index()?);
            let (limit, cost) = party.policy.charges(&party.cost).nth(index)?;
            let (policy, name) = (party.policy.name().clone(), limit.name().clone());
            Refusal::AboveLimit { policy, limit: name, cost, capacity: limit.capacity() }
        }
        b"overrun" => {
            let (party, index) = (party()?, index()?);
            let limit = party.policy.limits().get(index)?;
            let (policy, name) = (party.policy.name().clone(), limit.name().clone());
            let overrun = rest.get(2)?.number()?;
            Refusal::OverrunTooLarge { policy, limit: name, overrun, burst: limit.capacity() }
        }
        b"same_party" => {
            let party = party()?;
            let (policy, subject) = (party.policy.name().clone(), party.subject.clone());
            Refusal::SamePartyTwice { policy, subject }
        }
        b"party_count" => Refusal::PartyCount(operation.parties.len()),
        b"id_reused" => Refusal::IdReused(call_id(operation)?.to_string()),
        b"call_over" => Refusal::CallOver(call_id(operation)?.to_string()),
        b"too_many_ids" => Refusal::TooManyIds,
        _ => return None,
    })
}

fn call_id(operation: &OwnedOperation) -> Option<CallId> {
    match &operation.verb {
        OwnedVerb::Take(terms) | OwnedVerb::Preview(terms) => terms.call.clone(),
        OwnedVerb::Begin(booking, _) => Some(CallId::of_second_take(booking.permit)),
        _ => None,
    }
}

pub(crate) fn time(packed: &Packed) -> Option<Timestamp> {
    packed.number().map(Timestamp::from_micros)
}
