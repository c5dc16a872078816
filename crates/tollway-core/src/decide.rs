//! The heart: one pure function that decides a take.
//!
//! Everything else in Tollway makes this function atomic (stores), reachable (server, client) or useful (pipeline).

use crate::bounds::SEARCH_STEPS_MAX;
use crate::decision::{Decision, Denial, Grant, Reading, Refusal, above_limit};
use crate::line::Undo;
use crate::store::{Party, Terms};
use crate::{Line, Policy, Span, Timestamp};

/// Decides a take: all costs of all parties, or nothing.
///
/// `lines[i]` is the line of `parties[i]`. On a grant the lines are those afterwards; otherwise they are untouched (I2,
/// I3), but for meters of limits that the policy has changed.
///
/// The search: from the latest frontier on, the earliest moment at which every limit has room. If that is now, the take
/// is granted now. If it lies within `max_wait` and the take may book ahead, it is granted for then, and the line's
/// frontier moves there. Else it is denied, and the moment is when to come back.
pub fn decide(
    parties: &[Party<'_>],
    lines: &mut [Line],
    terms: &Terms<'_>,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let now = lines.iter().fold(now, |now, line| now.max(line.seen));
    for (party, line) in parties.iter().zip(lines.iter_mut()) {
        line.fit(party.policy);
        refuse_impossible(party)?;
    }
    let found = earliest_for_all(parties, lines, now);
    let in_reach = found.settled && may_book(parties) && found.at.since(now) <= longest_wait(parties, terms);
    let granted = found.at <= now || in_reach;
    if !granted {
        let readings = if terms.readings { read_all(parties, lines, now) } else { Vec::new() };
        let Found { at, party, limit, .. } = found;
        return Ok(Decision::Denied(Denial { now, retry_at: at, party, limit, readings }));
    }
    let mut grant = Grant {
        permit: terms.permit,
        now,
        at: found.at,
        good_until: Timestamp::MAX,
        repeated: false,
        would_deny: 0,
        readings: Vec::new(),
    };
    for (party, line) in enforced(parties, lines) {
        let until = if found.at > now {
            book(party, line, terms, &found, now)
        } else {
            debit(party, line, terms, now, now)
        };
        grant.good_until = grant.good_until.min(until);
    }
    grant.would_deny = judge_shadows(parties, lines, terms, now);
    if terms.readings {
        grant.readings = read_all(parties, lines, now);
    }
    Ok(Decision::Granted(grant))
}

/// When the cost fits, and the limit that made it wait.
struct Found {
    at: Timestamp,
    party: usize,
    limit: usize,
    /// Whether it suits all limits. If the search was given up, it is only the earliest moment worth asking again.
    settled: bool,
}

/// The earliest moment from every frontier on at which all limits have room.
///
/// Each limit may push the moment on; once none does, it suits all. Without edges one round settles it, because a limit
/// that has room keeps it until somebody takes; with edges a later moment can fall into another window's edge.
fn earliest_for_all(parties: &[Party<'_>], lines: &[Line], now: Timestamp) -> Found {
    let mut found = Found { at: now, party: 0, limit: 0, settled: false };
    for (index, (party, line)) in parties.iter().zip(lines).enumerate() {
        if !party.policy.shadow() && line.frontier > found.at && charges_anything(party) {
            (found.at, found.party) = (line.frontier, index);
            found.limit = usize::from(line.frontier_limit);
        }
    }
    for _ in 0..SEARCH_STEPS_MAX {
        let before = found.at;
        for (index, (party, line)) in parties.iter().zip(lines).enumerate() {
            if !party.policy.shadow() {
                push_on(&mut found, index, party, line);
            }
        }
        if found.at == before {
            found.settled = true;
            break;
        }
    }
    found
}

fn push_on(found: &mut Found, index: usize, party: &Party<'_>, line: &Line) {
    let as_of = line.as_of();
    let charges = party.policy.charges(party.cost).zip(&line.meters).enumerate();
    for (limit_index, ((limit, charge), meter)) in charges {
        if charge == 0 {
            continue;
        }
        let at = limit.earliest(meter, charge, as_of, found.at, party.policy.edge());
        if at > found.at {
            (found.at, found.party, found.limit) = (at, index, limit_index);
        }
    }
}

/// Debits every meter of the line at `at`, after bringing all of them there. Answers until when the permit is good.
fn debit(party: &Party<'_>, line: &mut Line, terms: &Terms<'_>, now: Timestamp, at: Timestamp) -> Timestamp {
    let as_of = line.as_of();
    let mut good_until = Timestamp::MAX;
    for ((limit, charge), meter) in party.policy.charges(party.cost).zip(&mut line.meters) {
        limit.advance(meter, as_of, at);
        if charge > 0 {
            limit.debit(meter, charge, at, terms.permit);
            good_until = good_until.min(limit.good_until(meter, at, party.policy.edge()));
        }
    }
    line.seen = now;
    line.drop_undo();
    line.note_expiry(party.policy);
    good_until
}

/// Takes a place in line: the debit at a later time, with the state before it kept for one undo.
fn book(party: &Party<'_>, line: &mut Line, terms: &Terms<'_>, found: &Found, now: Timestamp) -> Timestamp {
    let undo = Undo {
        permit: terms.permit,
        meters: line.meters.clone(),
        as_of: line.as_of(),
        frontier: line.frontier,
        frontier_limit: line.frontier_limit,
    };
    let good_until = debit(party, line, terms, now, found.at);
    line.frontier = found.at;
    line.frontier_limit = u8::try_from(found.limit).unwrap_or(0);
    line.extra_mut().undo = Some(undo);
    line.note_expiry(party.policy);
    good_until
}

/// Judges each shadow by itself, now. One that would grant is debited; one that would not is reported, and that is all.
fn judge_shadows(parties: &[Party<'_>], lines: &mut [Line], terms: &Terms<'_>, now: Timestamp) -> u16 {
    let mut would_deny = 0u16;
    for (index, (party, line)) in parties.iter().zip(lines).enumerate() {
        if !party.policy.shadow() {
            continue;
        }
        let mut found = Found { at: now.max(line.frontier), party: index, limit: 0, settled: false };
        push_on(&mut found, index, party, line);
        if found.at <= now && refuse_above_limit(party).is_ok() {
            debit(party, line, terms, now, now);
        } else {
            would_deny |= u32::try_from(index).ok().and_then(|index| 1u16.checked_shl(index)).unwrap_or(0);
        }
    }
    would_deny
}

/// What every limit of every party shows now, or at its frontier if that lies ahead.
pub(crate) fn read_all(parties: &[Party<'_>], lines: &[Line], now: Timestamp) -> Vec<Reading> {
    let mut readings = Vec::new();
    for (party, line) in parties.iter().zip(lines) {
        read_line(party.policy, line, now, &mut readings);
    }
    readings
}

fn read_line(policy: &Policy, line: &Line, now: Timestamp, readings: &mut Vec<Reading>) {
    let at = now.max(line.as_of());
    for (limit, meter) in policy.limits().iter().zip(&line.meters) {
        let capacity = limit.capacity();
        let used = limit.used(meter, line.as_of(), at);
        readings.push(Reading {
            capacity,
            used,
            remaining: capacity.saturating_sub(used),
            resets_at: limit.resets_at(meter, line.as_of(), at),
            as_of: at,
        });
    }
}

/// A shadow may not even refuse.
fn refuse_impossible(party: &Party<'_>) -> Result<(), Refusal> {
    if party.policy.shadow() { Ok(()) } else { refuse_above_limit(party) }
}

fn refuse_above_limit(party: &Party<'_>) -> Result<(), Refusal> {
    match party.policy.charges(party.cost).find(|(limit, charge)| *charge > limit.capacity()) {
        Some((limit, charge)) => Err(above_limit(party.policy.name(), limit, charge)),
        None => Ok(()),
    }
}

/// Only a take under one enforced policy has a line to stand in.
fn may_book(parties: &[Party<'_>]) -> bool {
    let mut enforced = parties.iter().filter(|party| !party.policy.shadow());
    matches!((enforced.next(), enforced.next()), (Some(party), None) if party.policy.may_book())
}

fn longest_wait(parties: &[Party<'_>], terms: &Terms<'_>) -> Span {
    parties
        .iter()
        .filter(|party| !party.policy.shadow())
        .fold(terms.max_wait, |wait, party| wait.min(party.policy.max_wait()))
}

fn charges_anything(party: &Party<'_>) -> bool {
    party.policy.charges(party.cost).any(|(_, charge)| charge > 0)
}

fn enforced<'a, 'p>(
    parties: &'a [Party<'p>],
    lines: &'a mut [Line],
) -> impl Iterator<Item = (&'a Party<'p>, &'a mut Line)> {
    parties.iter().zip(lines).filter(|(party, _)| !party.policy.shadow())
}
