//! The heart: one pure function that decides a take.
//!
//! Everything else in Tollway makes this function atomic (stores), reachable (server, client) or useful (pipeline).

use std::borrow::Borrow;

use crate::algorithm::{Advance, Meter};
use crate::bounds::SEARCH_STEPS_MAX;
use crate::decision::{Decision, Denial, DenyNow, Grant, Reading, Refusal, above_limit};
use crate::line::Undo;
use crate::store::{Party, Terms};
use crate::{Cost, Limit, Line, PermitId, Policy, Span, Timestamp};

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
    if let ([party], [line], None, false) = (parties, &mut *lines, terms.call, terms.readings)
        && let Some(granted) = grant_now(party.policy, party.cost, line, terms.permit, now)
    {
        return Ok(Decision::Granted(granted));
    }
    search(parties, lines, terms, now)
}

/// The common case: one policy, no id, and nobody who waits.
///
/// If it is not that (a shadow, a policy whose limits have changed, a cost that can never be granted), nothing has
/// changed, and [`decide`] or [`apply`](crate::apply) must be asked. A store in memory asks here first, because then
/// nothing else is in the way.
pub fn decide_now(
    policy: &Policy,
    cost: &Cost,
    line: &mut Line,
    permit: PermitId,
    now: Timestamp,
) -> Option<Decision> {
    match grant_now(policy, cost, line, permit, now) {
        Some(granted) => Some(Decision::Granted(granted)),
        None => {
            let denied = deny_now(policy, cost, line, now.max(line.seen))?;
            line.keep_longer(policy);
            Some(Decision::Denied(denied.in_full()))
        }
    }
}

/// Debits one policy in which nobody stands in line and every limit has room; nothing otherwise.
#[inline]
fn grant_now(
    policy: &Policy,
    cost: &Cost,
    line: &mut Line,
    permit: PermitId,
    now: Timestamp,
) -> Option<Grant> {
    let now = now.max(line.seen);
    if policy.shadow() || line.frontier() > now || !has_room(policy, cost, line, now) {
        return None;
    }
    let mut grant = Grant::at_once(permit, now);
    debit(policy, cost, line, permit, now, &mut grant);
    Some(grant)
}

/// When one policy that has no room now will have it.
fn deny_now(policy: &Policy, cost: &Cost, line: &Line, now: Timestamp) -> Option<DenyNow> {
    if !line.fits(policy) {
        return None;
    }
    let mut found = Found::from(now);
    found.not_before(0, line);
    found.deny(policy, cost, line.as_of(), line.meters.iter(), now)
}

/// The same for meters without a line: they are the policy's, nobody stands in line, and they do not have room now.
pub(crate) fn deny_meters(
    policy: &Policy,
    cost: &Cost,
    as_of: Timestamp,
    meters: impl Iterator<Item = Meter> + Clone,
    now: Timestamp,
) -> Option<DenyNow> {
    Found::from(now).deny(policy, cost, as_of, meters, now)
}

#[inline]
fn has_room(policy: &Policy, cost: &Cost, line: &Line, now: Timestamp) -> bool {
    let (as_of, edge) = (line.as_of(), policy.edge());
    policy.limits().len() == line.meters.len()
        && policy.charges(cost).zip(&*line.meters).all(|((limit, charge), meter)| {
            limit.identity() == meter.identity
                && charge <= limit.capacity()
                && (charge == 0 || limit.earliest(meter, charge, as_of, now, edge) <= now)
        })
}

/// The general case: any number of policies, shadows among them, and callers who wait.
fn search(
    parties: &[Party<'_>],
    lines: &mut [Line],
    terms: &Terms<'_>,
    mut now: Timestamp,
) -> Result<Decision, Refusal> {
    for (party, line) in parties.iter().zip(lines.iter_mut()) {
        now = now.max(line.seen);
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
    let mut grant = Grant { at: found.at, ..Grant::at_once(terms.permit, now) };
    for (index, (party, line)) in parties.iter().zip(lines.iter_mut()).enumerate() {
        if party.policy.shadow() {
            grant.would_deny |= judge_shadow(index, party, line, terms, now);
        } else if found.at > now {
            book(party, line, terms, &found, &mut grant);
        } else {
            debit(party.policy, party.cost, line, terms.permit, now, &mut grant);
        }
    }
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
    let mut found = Found::from(now);
    for (index, (party, line)) in parties.iter().zip(lines).enumerate() {
        if !party.policy.shadow() && charges_anything(party.policy, party.cost) {
            found.not_before(index, line);
        }
    }
    found.settle(|found| {
        for (index, (party, line)) in parties.iter().zip(lines).enumerate() {
            if !party.policy.shadow() {
                found.push_on(index, party.policy, party.cost, line.as_of(), line.meters.iter());
            }
        }
    });
    found
}

impl Found {
    fn from(at: Timestamp) -> Self {
        Self { at, party: 0, limit: 0, settled: false }
    }

    /// Goes round until nothing pushes the moment on any more.
    fn settle(&mut self, mut round: impl FnMut(&mut Self)) {
        for _ in 0..SEARCH_STEPS_MAX {
            let before = self.at;
            round(self);
            if self.at == before {
                self.settled = true;
                return;
            }
        }
    }

    /// Nobody comes before those who stand in line.
    fn not_before(&mut self, index: usize, line: &Line) {
        if line.frontier() > self.at {
            (self.at, self.party, self.limit) = (line.frontier(), index, line.frontier_limit());
        }
    }

    /// Each limit of a line that has no room yet pushes the moment on.
    fn push_on<M: Borrow<Meter>>(
        &mut self,
        index: usize,
        policy: &Policy,
        cost: &Cost,
        as_of: Timestamp,
        meters: impl Iterator<Item = M>,
    ) {
        for (limit_index, ((limit, charge), meter)) in policy.charges(cost).zip(meters).enumerate() {
            if charge == 0 {
                continue;
            }
            let at = limit.earliest(meter.borrow(), charge, as_of, self.at, policy.edge());
            if at > self.at {
                (self.at, self.party, self.limit) = (at, index, limit_index);
            }
        }
    }

    /// A denial by one policy whose limits do not all have room now, unless that needs more to be said.
    fn deny<M: Borrow<Meter>>(
        mut self,
        policy: &Policy,
        cost: &Cost,
        as_of: Timestamp,
        meters: impl Iterator<Item = M> + Clone,
        now: Timestamp,
    ) -> Option<DenyNow> {
        let possible = policy.charges(cost).all(|(limit, charge)| charge <= limit.capacity());
        if policy.shadow() || !possible || !charges_anything(policy, cost) {
            return None;
        }
        self.settle(|found| found.push_on(0, policy, cost, as_of, meters.clone()));
        (self.at > now).then_some(DenyNow { now, retry_at: self.at, limit: self.limit })
    }
}

/// Debits every meter of the line at `at`, after bringing all of them there, also those that are charged nothing.
#[inline]
fn debit(policy: &Policy, cost: &Cost, line: &mut Line, permit: PermitId, at: Timestamp, grant: &mut Grant) {
    let span = Advance { as_of: line.as_of(), at, edge: policy.edge() };
    let mut expires = Timestamp::EPOCH;
    for ((limit, charge), meter) in policy.charges(cost).zip(&mut *line.meters) {
        let debited = limit.debit(meter, charge, span, permit);
        expires = expires.max(debited.expires);
        if charge > 0 {
            grant.good_until = grant.good_until.min(debited.good_until);
            grant.over |= !debited.holds;
        }
    }
    line.changed(grant.now, expires, policy);
}

/// Takes a place in line: the debit at a later time, with the state before it kept for one undo.
fn book(party: &Party<'_>, line: &mut Line, terms: &Terms<'_>, found: &Found, grant: &mut Grant) {
    let undo = Undo {
        permit: terms.permit,
        meters: line.meters.clone(),
        as_of: line.as_of(),
        frontier: line.frontier(),
        frontier_limit: u8::try_from(line.frontier_limit()).unwrap_or(0),
    };
    debit(party.policy, party.cost, line, terms.permit, found.at, grant);
    let extra = line.extra_mut();
    extra.frontier = found.at;
    extra.frontier_limit = u8::try_from(found.limit).unwrap_or(0);
    extra.undo = Some(undo);
    line.note_expiry(party.policy);
}

/// Judges a shadow by itself, now. One that would grant is debited; one that would not is reported, and its line lives on as
/// after any denial (I6).
fn judge_shadow(index: usize, party: &Party<'_>, line: &mut Line, terms: &Terms<'_>, now: Timestamp) -> u16 {
    let mut found = Found { at: now.max(line.frontier()), party: index, limit: 0, settled: false };
    found.push_on(index, party.policy, party.cost, line.as_of(), line.meters.iter());
    if found.at <= now && refuse_above_limit(party).is_ok() {
        let mut grant = Grant::at_once(terms.permit, now);
        debit(party.policy, party.cost, line, terms.permit, now, &mut grant);
        return 0;
    }
    line.keep_longer(party.policy);
    u32::try_from(index).ok().and_then(|index| 1u16.checked_shl(index)).unwrap_or(0)
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
    for (limit, meter) in policy.limits().iter().zip(&*line.meters) {
        readings.push(limit.read(meter, line.as_of(), at));
    }
}

impl Limit {
    /// What a meter, as of one time, shows at another.
    #[inline]
    pub(crate) fn read(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> Reading {
        let (capacity, used) = (self.capacity(), self.used(meter, as_of, at));
        let remaining = capacity.saturating_sub(used);
        Reading { capacity, used, remaining, resets_at: self.resets_at(meter, as_of, at), as_of: at }
    }
}

/// A shadow may not even refuse.
#[inline]
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

fn charges_anything(policy: &Policy, cost: &Cost) -> bool {
    policy.charges(cost).any(|(_, charge)| charge > 0)
}
