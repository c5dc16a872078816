//! One operation on the lines it names: what every store calls while it holds them.

use smallvec::SmallVec;

use crate::bounds::{CALL_ID_REMEMBERED, PARTIES_PER_TAKE_MAX};
use crate::correct::{done, free_slots, give_back, renew, reset, settle};
use crate::decide::{decide, read_all};
use crate::decision::{Decision, Grant, Refusal};
use crate::fingerprint::Fingerprint;
use crate::line::RememberedCall;
use crate::store::{Begun, Booking, Operation, Outcome, Party, Settled, Terms, Verb};
use crate::{CallId, Line, PermitId, Timestamp};

/// What came of an operation, and whether the lines must be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What to answer.
    pub outcome: Outcome,
    /// Whether a line has changed. If not, a store need not write, and must not create, any line.
    pub changed: bool,
}

/// Applies one operation to the lines of its parties (`lines[i]` is that of `parties[i]`), at the store's time.
pub fn apply(operation: &Operation<'_>, lines: &mut [Line], now: Timestamp) -> Applied {
    let fitted = operation.parties.iter().zip(lines.iter()).all(|(party, line)| line.fits(party.policy));
    if !fitted {
        return apply_to_changed_policy(operation, lines, now);
    }
    apply_fitted(operation, lines, now)
}

/// The limits of a policy have changed since a line was written: its meters are rearranged, and kept so only if the
/// operation changes the line anyway.
#[cold]
fn apply_to_changed_policy(operation: &Operation<'_>, lines: &mut [Line], now: Timestamp) -> Applied {
    let before = lines.to_vec();
    operation.parties.iter().zip(lines.iter_mut()).for_each(|(party, line)| line.fit(party.policy));
    let applied = apply_fitted(operation, lines, now);
    let denied = matches!(applied.outcome, Outcome::Decided(Decision::Denied(_)));
    if denied || !applied.changed {
        // A denial may have made them live longer, and nothing else.
        let longer = lines.iter().map(|line| line.expires).zip(before);
        let longer: Vec<Line> =
            longer.map(|(expires, line)| Line { expires: expires.max(line.expires), ..line }).collect();
        lines.clone_from_slice(&longer);
    }
    applied
}

fn apply_fitted(operation: &Operation<'_>, lines: &mut [Line], now: Timestamp) -> Applied {
    let refused = |refusal| Applied { outcome: Outcome::Refused(refusal), changed: false };
    try_apply(operation, lines, now).unwrap_or_else(refused)
}

fn try_apply(operation: &Operation<'_>, lines: &mut [Line], now: Timestamp) -> Result<Applied, Refusal> {
    let parties = operation.parties;
    check_parties(parties)?;
    let (outcome, changed) = match operation.verb {
        Verb::Take(terms) => {
            let decision = take(parties, lines, &terms, now)?;
            let changed = match &decision {
                Decision::Granted(_) => changes(&decision),
                Decision::Denied(_) => keep_longer(parties, lines),
            };
            (Outcome::Decided(decision), changed)
        }
        Verb::Preview(terms) => {
            let mut foreseen = lines.to_vec();
            (Outcome::Decided(take(parties, &mut foreseen, &terms, now)?), false)
        }
        Verb::Begin(booking, terms) => {
            let begun = begin(parties, lines, booking, &terms, now)?;
            let changed = matches!(&begun, Begun::Again(decision) if changes(decision));
            (Outcome::Begun(begun), changed)
        }
        Verb::Settle { booking, actual, remember } => {
            let settled = settle(parties, lines, booking, actual, remember, now)?;
            (Outcome::Settled(settled), matches!(settled, Settled::Whole | Settled::Partly))
        }
        Verb::Return { booking, remember } => {
            let settled = give_back(parties, lines, booking, remember, now);
            (Outcome::Settled(settled), matches!(settled, Settled::Whole | Settled::Partly))
        }
        Verb::Done(permit) => {
            let held = done(parties, lines, permit, now);
            (Outcome::Done(held), held)
        }
        Verb::Renew(permit) => {
            let held = renew(parties, lines, permit, now);
            (Outcome::Renewed(held), held)
        }
        Verb::Peek => {
            let now = lines.iter().fold(now, |now, line| now.max(line.seen));
            (Outcome::Peeked(read_all(parties, lines, now)), false)
        }
        Verb::Reset => {
            reset(parties, lines, now);
            (Outcome::Reset, true)
        }
    };
    Ok(Applied { outcome, changed })
}

/// A take, counted once if the caller gave it an id.
fn take(
    parties: &[Party<'_>],
    lines: &mut [Line],
    terms: &Terms<'_>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let Some(call) = terms.call else { return decide(parties, lines, terms, now) };
    let keeper = first_in_key_order(parties);
    let asked = fingerprint(parties);
    let known_at = lines.iter().fold(now, |now, line| now.max(line.seen));
    if let Some(extra) = lines.get(keeper).and_then(|line| line.extra.as_deref()) {
        if let Some(known) = extra.call(call, known_at) {
            let grant = known.grant.clone();
            return if known.asked != asked {
                Err(Refusal::IdReused(call.to_string()))
            } else if !holds_all_slots(parties, lines, grant.permit, known_at) {
                Err(Refusal::CallOver(call.to_string()))
            } else {
                Ok(Decision::Granted(repeat(grant, parties, lines, terms, known_at)))
            };
        }
        if !extra.has_room_for_call(known_at) {
            return Err(Refusal::TooManyIds);
        }
    }
    let decision = decide(parties, lines, terms, now)?;
    if let (Decision::Granted(grant), Some((party, line))) =
        (&decision, parties.get(keeper).zip(lines.get_mut(keeper)))
    {
        let expires = grant.now.plus(CALL_ID_REMEMBERED);
        let remembered = Grant { readings: Vec::new(), ..grant.clone() };
        let call = RememberedCall { id: call.clone(), asked, grant: remembered, expires };
        line.bring_to(party.policy, grant.now);
        line.extra_mut().remember_call(call, grant.now);
        line.note_expiry(party.policy);
    }
    Ok(decision)
}

/// Whether a permit still has every slot it was granted; true where there are none to have.
fn holds_all_slots(parties: &[Party<'_>], lines: &[Line], permit: PermitId, now: Timestamp) -> bool {
    parties.iter().zip(lines).filter(|(party, _)| !party.policy.shadow()).all(|(party, line)| {
        let mut meters = party.policy.limits().iter().zip(&*line.meters);
        meters.all(|(limit, meter)| !limit.has_slots() || limit.holds_slot(meter, permit, now))
    })
}

fn repeat(grant: Grant, parties: &[Party<'_>], lines: &[Line], terms: &Terms<'_>, now: Timestamp) -> Grant {
    let readings = if terms.readings { read_all(parties, lines, now) } else { Vec::new() };
    Grant { repeated: true, now, readings, ..grant }
}

/// Free while the permit is good; too late, it takes again at the back of the line, once however often it is repeated.
fn begin(
    parties: &[Party<'_>],
    lines: &mut [Line],
    booking: Booking,
    terms: &Terms<'_>,
    now: Timestamp,
) -> Result<Begun, Refusal> {
    let now = lines.iter().fold(now, |now, line| now.max(line.seen));
    if now < booking.at {
        return Ok(Begun::Early(booking.at.since(now)));
    }
    if now < booking.good_until || still_good(parties, lines, booking, now) {
        return Ok(Begun::Now);
    }
    let second = CallId::of_second_take(booking.permit);
    // It must not stand in its own way: the slots it held are free for it, if it is granted.
    let before = lines.to_vec();
    free_slots(parties, lines, booking.permit);
    let taken = take(parties, lines, &Terms { call: Some(&second), ..*terms }, now);
    if !taken.as_ref().is_ok_and(changes) {
        lines.clone_from_slice(&before);
    }
    taken.map(Begun::Again)
}

/// A permit that holds slots may have kept them beyond the time it was granted for; then only its windows end it.
fn still_good(parties: &[Party<'_>], lines: &[Line], booking: Booking, now: Timestamp) -> bool {
    parties.iter().any(|party| party.policy.holds_slots())
        && parties.iter().zip(lines).all(|(party, line)| {
            let edge = party.policy.edge();
            party.policy.charges(party.cost).zip(&*line.meters).all(|((limit, charge), meter)| {
                charge == 0 || limit.still_good(meter, booking.permit, booking.at, now, edge)
            })
        })
}

/// A denial changes no meter. But a line whose rate was lowered since must not be forgotten as early as it says (I6).
fn keep_longer(parties: &[Party<'_>], lines: &mut [Line]) -> bool {
    let mut longer = false;
    for (party, line) in parties.iter().zip(lines) {
        longer |= line.keep_longer(party.policy);
    }
    longer
}

fn changes(decision: &Decision) -> bool {
    matches!(decision, Decision::Granted(grant) if !grant.repeated)
}

fn check_parties(parties: &[Party<'_>]) -> Result<(), Refusal> {
    if parties.len() == 1 {
        return Ok(());
    }
    if parties.is_empty() || parties.len() > PARTIES_PER_TAKE_MAX {
        return Err(Refusal::PartyCount(parties.len()));
    }
    for (index, party) in parties.iter().enumerate() {
        let same =
            |other: &Party<'_>| other.policy.name() == party.policy.name() && other.subject == party.subject;
        if parties.iter().skip(index.saturating_add(1)).any(same) {
            let (policy, subject) = (party.policy.name().clone(), party.subject.clone());
            return Err(Refusal::SamePartyTwice { policy, subject });
        }
    }
    Ok(())
}

/// Which line keeps a take's id: the same one whatever the order in which the caller names the parties.
pub(crate) fn first_in_key_order(parties: &[Party<'_>]) -> usize {
    let keys = parties.iter().enumerate().map(|(index, party)| ((party.policy.name(), party.subject), index));
    keys.min().map_or(0, |(_, index)| index)
}

/// What was asked, whatever the order in which the caller names the parties.
fn fingerprint(parties: &[Party<'_>]) -> u64 {
    let mut in_key_order: SmallVec<[&Party<'_>; 4]> = parties.iter().collect();
    in_key_order.sort_unstable_by_key(|party| (party.policy.name(), party.subject));
    let with_party = |print: Fingerprint, party: &&Party<'_>| {
        let print = print.text(party.policy.name().as_str()).text(party.subject.as_str());
        let charges = party.policy.charges(party.cost);
        charges.fold(print, |print, (limit, charge)| print.number(limit.identity().into()).number(charge))
    };
    in_key_order.iter().fold(Fingerprint::new(), with_party).finish()
}
