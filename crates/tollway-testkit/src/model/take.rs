//! Taking and beginning, by the model.

use tollway_core::bounds::{CALL_ID_REMEMBERED, CALL_IDS_MAX};
use tollway_core::{
    Algorithm, Begun, Booking, CallId, Decision, Denial, Grant, Limit, Party, Reading, Refusal, Span, Terms,
    Timestamp,
};

use super::line::{Asked, Call, Line, Undo};
use super::log::{Entry, slot_life, within};
use crate::plain::key_of;

/// A decision, and whether anything was taken.
type Taken = (Decision, bool);

/// A take, counted once if it has an id.
pub(super) fn take(
    parties: &[Party<'_>],
    lines: &mut [Line],
    terms: &Terms<'_>,
    now: Timestamp,
) -> Result<Taken, Refusal> {
    let Some(id) = terms.call else { return decide(parties, lines, terms, now) };
    let keeper = first_in_key_order(parties);
    let asked = asked(parties);
    // An id is forgotten by the time of the line that keeps it.
    let live = |call: &&Call| call.expires > now;
    if let Some(known) = lines[keeper].calls.iter().filter(live).find(|call| call.id == *id) {
        if known.asked != asked {
            return Err(Refusal::IdReused(id.to_string()));
        }
        let permit = known.grant.permit;
        let lacks_slot = |(party, line): (&Party<'_>, &Line)| {
            let slots = party.policy.limits().iter().filter(|limit| slot_life(limit).is_some());
            let held = |limit: &Limit| {
                line.log(limit).slots.iter().any(|(holder, until)| *holder == permit && *until > now)
            };
            !party.policy.shadow() && slots.into_iter().any(|limit| !held(limit))
        };
        if parties.iter().zip(lines.iter()).any(lacks_slot) {
            return Err(Refusal::CallOver(id.to_string()));
        }
        let readings = if terms.readings { read_all(parties, lines, now) } else { Vec::new() };
        let grant = Grant { repeated: true, now, readings, ..known.grant.clone() };
        return Ok((Decision::Granted(grant), false));
    }
    if lines[keeper].calls.iter().filter(live).count() >= CALL_IDS_MAX {
        return Err(Refusal::TooManyIds);
    }
    let taken = decide(parties, lines, terms, now)?;
    if let (Decision::Granted(grant), _) = &taken {
        let grant = Grant { readings: Vec::new(), ..grant.clone() };
        let expires = now.plus(CALL_ID_REMEMBERED);
        lines[keeper].bring_along(parties[keeper].policy, now, Some(terms.permit));
        lines[keeper].calls.push(Call { id: id.clone(), asked, grant, expires });
    }
    Ok(taken)
}

/// Free while the permit is good; too late, a second take under an id made of the permit.
pub(super) fn begin(
    parties: &[Party<'_>],
    lines: &mut [Line],
    booking: &Booking,
    terms: &Terms<'_>,
    now: Timestamp,
) -> Result<(Begun, bool), Refusal> {
    if now < booking.at {
        return Ok((Begun::Early(booking.at.since(now)), false));
    }
    if now < booking.good_until || still_good(parties, lines, booking, now) {
        return Ok((Begun::Now, false));
    }
    let second = CallId::of_second_take(booking.permit);
    let mut after = lines.to_vec();
    for (party, line) in parties.iter().zip(&mut after) {
        for limit in party.policy.limits() {
            line.log_mut(limit).slots.retain(|(holder, _)| *holder != booking.permit);
        }
    }
    let (decision, changed) = take(parties, &mut after, &Terms { call: Some(&second), ..*terms }, now)?;
    if changed {
        lines.clone_from_slice(&after);
    }
    Ok((Begun::Again(decision), changed))
}

/// A permit that kept its slots by renewing them is good until its windows end.
fn still_good(parties: &[Party<'_>], lines: &[Line], booking: &Booking, now: Timestamp) -> bool {
    let good = |party: &Party<'_>, line: &Line, limit: &Limit| match limit.algorithm() {
        Algorithm::Concurrency { .. } => {
            let mut slots = line.log(limit).slots.iter();
            slots.any(|(holder, until)| *holder == booking.permit && *until > now)
        }
        Algorithm::FromFirstCall(period) => {
            line.log(limit).running(*period, now).is_some_and(|(window, _)| within(window, booking.at))
        }
        Algorithm::Window(_) | Algorithm::Sliding(_) | Algorithm::Bucket { .. } | Algorithm::Paced(_) => {
            now < line.log(limit).good_until(limit, booking.at, party.policy.edge())
        }
    };
    parties.iter().any(|party| party.policy.holds_slots())
        && parties.iter().zip(lines).all(|(party, line)| {
            party.policy.charges(party.cost).all(|(limit, charge)| charge == 0 || good(party, line, limit))
        })
}

fn decide(
    parties: &[Party<'_>],
    lines: &mut [Line],
    terms: &Terms<'_>,
    now: Timestamp,
) -> Result<Taken, Refusal> {
    for party in parties.iter().filter(|party| !party.policy.shadow()) {
        refuse_above_limit(party)?;
    }
    let place = find_place(parties, lines, now);
    let enforced: Vec<&Party<'_>> = parties.iter().filter(|party| !party.policy.shadow()).collect();
    let longest_wait = enforced.iter().map(|party| party.policy.max_wait()).fold(terms.max_wait, Span::min);
    let may_book = enforced.len() == 1 && enforced.iter().all(|party| books_ahead(party));
    if place.at > now && !(may_book && place.at.since(now) <= longest_wait) {
        let readings = if terms.readings { read_all(parties, lines, now) } else { Vec::new() };
        let Place { at: retry_at, party, limit } = place;
        return Ok((Decision::Denied(Denial { now, retry_at, party, limit, readings }), false));
    }
    let mut good_until = Timestamp::MAX;
    let mut would_deny = 0;
    for (index, (party, line)) in parties.iter().zip(&mut *lines).enumerate() {
        if !party.policy.shadow() {
            good_until = good_until.min(book(party, line, terms, &place, now));
        } else if shadow_grants(party, line, now) {
            book(party, line, terms, &Place { at: now, party: 0, limit: 0 }, now);
        } else {
            would_deny |= 1 << index;
            line.denied(party.policy);
        }
    }
    let readings = if terms.readings { read_all(parties, lines, now) } else { Vec::new() };
    let blank = Grant::at_once(terms.permit, now);
    let grant = Grant { at: place.at, good_until, would_deny, readings, ..blank };
    Ok((Decision::Granted(grant), true))
}

/// A moment, and the limit that had to be waited for.
struct Place {
    at: Timestamp,
    party: usize,
    limit: usize,
}

/// The earliest moment that suits all limits of the enforced parties, not before any of their frontiers.
///
/// Rounds, because the moment that one limit wants can lie in the edge of another.
fn find_place(parties: &[Party<'_>], lines: &[Line], now: Timestamp) -> Place {
    let mut place = Place { at: now, party: 0, limit: 0 };
    let enforced = || parties.iter().zip(lines).enumerate().filter(|(_, (party, _))| !party.policy.shadow());
    for (index, (party, line)) in enforced() {
        let charged = party.policy.charges(party.cost).any(|(_, charge)| charge > 0);
        if charged && line.frontier > place.at {
            place = Place { at: line.frontier, party: index, limit: line.frontier_limit };
        }
    }
    loop {
        let before = place.at;
        for (index, (party, line)) in enforced() {
            push_on(&mut place, index, party, line);
        }
        if place.at == before {
            return place;
        }
    }
}

fn push_on(place: &mut Place, party_index: usize, party: &Party<'_>, line: &Line) {
    for (limit_index, (limit, charge)) in party.policy.charges(party.cost).enumerate() {
        if charge == 0 {
            continue;
        }
        let at = line.log(limit).earliest(limit, charge, place.at, party.policy.edge());
        if at > place.at {
            *place = Place { at, party: party_index, limit: limit_index };
        }
    }
}

/// Books the party's cost at the place: now, or ahead, and then remembered for one undo.
fn book(party: &Party<'_>, line: &mut Line, terms: &Terms<'_>, place: &Place, now: Timestamp) -> Timestamp {
    let at = place.at;
    let ahead = at > now;
    let (frontier, frontier_limit) = (line.frontier, line.frontier_limit);
    let mut good_until = Timestamp::MAX;
    for (limit, charge) in party.policy.charges(party.cost) {
        if charge == 0 {
            continue;
        }
        let log = line.log_mut(limit);
        match limit.algorithm() {
            Algorithm::Concurrency { expires } => log.slots.push((terms.permit, at.plus(*expires))),
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_) => {
                let permit = terms.permit;
                log.entries.push(Entry { when: at, booked_at: at, permit, minus: 0, plus: charge });
            }
        }
        good_until = good_until.min(log.good_until(limit, at, party.policy.edge()));
    }
    line.undo = None;
    if ahead {
        line.undo = Some(Undo { permit: terms.permit, frontier, frontier_limit });
        (line.frontier, line.frontier_limit) = (at, place.limit);
    }
    line.bring_along(party.policy, now, Some(terms.permit));
    good_until
}

/// A shadow is judged by itself, now.
fn shadow_grants(party: &Party<'_>, line: &Line, now: Timestamp) -> bool {
    if refuse_above_limit(party).is_err() {
        return false;
    }
    let mut place = Place { at: now.max(line.frontier), party: 0, limit: 0 };
    push_on(&mut place, 0, party, line);
    place.at <= now
}

/// What every limit shows now, or at the frontier if that lies ahead.
pub(super) fn read_all(parties: &[Party<'_>], lines: &[Line], now: Timestamp) -> Vec<Reading> {
    let mut readings = Vec::new();
    for (party, line) in parties.iter().zip(lines) {
        let as_of = now.max(line.as_of());
        for limit in party.policy.limits() {
            let log = line.log(limit);
            let (capacity, used) = (limit.capacity(), log.used(limit, as_of));
            let remaining = capacity.saturating_sub(used);
            readings.push(Reading {
                capacity,
                used,
                remaining,
                resets_at: log.resets_at(limit, as_of),
                as_of,
            });
        }
    }
    readings
}

fn refuse_above_limit(party: &Party<'_>) -> Result<(), Refusal> {
    for (limit, cost) in party.policy.charges(party.cost) {
        let capacity = limit.capacity();
        if cost > capacity {
            let (policy, limit) = (party.policy.name().clone(), limit.name().clone());
            return Err(Refusal::AboveLimit { policy, limit, cost, capacity });
        }
    }
    Ok(())
}

fn books_ahead(party: &Party<'_>) -> bool {
    party.policy.limits().iter().all(|limit| match limit.algorithm() {
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_) => true,
        Algorithm::Sliding(_) | Algorithm::Concurrency { .. } => false,
    })
}

/// What is asked, whatever the order of the parties.
fn asked(parties: &[Party<'_>]) -> Vec<Asked> {
    let of_party = |party: &Party<'_>| {
        let charges =
            party.policy.charges(party.cost).map(|(limit, charge)| (limit.identity(), charge)).collect();
        (party.policy.name().to_string(), party.subject.to_string(), charges)
    };
    let mut asked: Vec<Asked> = parties.iter().map(of_party).collect();
    asked.sort();
    asked
}

/// The party whose line remembers what belongs to all of them.
pub(super) fn first_in_key_order(parties: &[Party<'_>]) -> usize {
    (0..parties.len()).min_by_key(|index| key_of(&parties[*index])).unwrap_or(0)
}
