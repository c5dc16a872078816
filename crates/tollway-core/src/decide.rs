//! The heart: one pure function that decides a take.
//!
//! Everything else in Tollway makes this function atomic (stores), reachable (server, client) or useful (pipeline).

use std::borrow::Borrow;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::account::Undo;
use crate::algorithm::{Advance, Meter};
use crate::bounds::SEARCH_STEPS_MAX;
use crate::decision::{
    ChargeStatus, Decision, Denial, FastDecision, Reading, Refusal, TakeOutcome, above_limit, shadow_bit,
};
use crate::{Account, Booking, Charge, Cost, Limit, PermitId, Policy, Span, Terms, Timestamp};

/// Decides a take: all costs of all charges, or nothing.
///
/// `lines[i]` is the line of `charges[i]`. On a grant the lines are those afterwards; otherwise they are untouched (I2,
/// I3), but for meters of limits that the policy has changed.
///
/// The search: from the latest frontier on, the earliest moment at which every limit has room. If that is now, the take
/// is granted now. If it lies within `max_wait` and the take may book ahead, it is granted for then, and the line's
/// frontier moves there. Else it is denied, and the moment is when to come back.
pub fn decide(
    charges: &[Charge],
    lines: &mut [Account],
    terms: &Terms,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    if let ([charge], [line], None, false) = (charges, &mut *lines, &terms.call, terms.readings)
        && let Some(granted) = grant_now(&charge.policy, charge.cost(), line, terms.permit, now)
    {
        return Ok(granted.decision(terms.permit, granted.now));
    }
    search(charges, lines, terms, now)
}

/// The fast path: one policy, no id, and no wait. Also says whether the grant broke I1, which must raise an alarm.
///
/// If it is not that (a shadow, a policy whose limits have changed, a cost that can never be granted), nothing has
/// changed, and [`decide`] or [`apply`](crate::apply) must be asked. A store in memory asks here first, because then
/// nothing else is in the way.
pub fn decide_fast(
    policy: &Policy,
    cost: &Cost,
    line: &mut Account,
    permit: PermitId,
    now: Timestamp,
) -> Option<(FastDecision, bool)> {
    if let Some(Granting { now, good_until, over }) = grant_now(policy, cost, line, permit, now) {
        return Some((FastDecision::Granted { now, good_until }, over));
    }
    let denied = deny_now(policy, cost, line, now.max(line.seen))?;
    line.keep_longer(policy);
    Some((denied, false))
}

/// What the debits of a grant have come to so far.
struct Granting {
    now: Timestamp,
    good_until: Timestamp,
    over: bool,
}

impl Granting {
    fn new(now: Timestamp) -> Self {
        Self { now, good_until: Timestamp::MAX, over: false }
    }

    fn decision(&self, permit: PermitId, at: Timestamp) -> Decision {
        let booking = Booking { permit, granted_at: self.now, at, good_until: self.good_until };
        Decision { over: self.over, ..Decision::new(self.now, TakeOutcome::Granted(booking)) }
    }
}

/// Debits one policy if its queue is empty and every limit has room; nothing otherwise.
#[inline]
fn grant_now(
    policy: &Policy,
    cost: &Cost,
    line: &mut Account,
    permit: PermitId,
    now: Timestamp,
) -> Option<Granting> {
    let now = now.max(line.seen);
    if policy.shadow() || line.frontier() > now || !has_room(policy, cost, line, now) {
        return None;
    }
    let mut granting = Granting::new(now);
    debit(policy, cost, line, permit, now, &mut granting);
    Some(granting)
}

/// When one policy that has no room now will have it.
fn deny_now(policy: &Policy, cost: &Cost, line: &Account, now: Timestamp) -> Option<FastDecision> {
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
) -> Option<FastDecision> {
    Found::from(now).deny(policy, cost, as_of, meters, now)
}

#[inline]
fn has_room(policy: &Policy, cost: &Cost, line: &Account, now: Timestamp) -> bool {
    let (as_of, edge) = (line.as_of(), policy.edge());
    policy.limits().len() == line.meters.len()
        && policy.amounts(cost).zip(&*line.meters).all(|((limit, amount), meter)| {
            limit.identity() == meter.identity
                && amount <= limit.capacity()
                && (amount == 0 || limit.earliest(meter, amount, as_of, now, edge) <= now)
        })
}

/// The general case: any number of policies, shadows among them, and callers who wait.
fn search(
    charges: &[Charge],
    lines: &mut [Account],
    terms: &Terms,
    mut now: Timestamp,
) -> Result<Decision, Refusal> {
    for (charge, line) in charges.iter().zip(lines.iter_mut()) {
        now = now.max(line.seen);
        line.fit(&charge.policy);
        refuse_impossible(charge)?;
    }
    let found = earliest_for_all(charges, lines, now);
    let in_reach = found.settled && may_book(charges) && found.at.since(now) <= longest_wait(charges, terms);
    let granted = found.at <= now || in_reach;
    let mut decision = if granted {
        grant_all(charges, lines, terms, &found, now)
    } else {
        let denial = Denial { retry_at: found.at, charge: found.charge, limit: found.limit };
        Decision::new(now, TakeOutcome::Denied(denial))
    };
    if terms.readings {
        decision.charges = read_all(charges, lines, now);
    }
    Ok(decision)
}

fn grant_all(
    charges: &[Charge],
    lines: &mut [Account],
    terms: &Terms,
    found: &Found,
    now: Timestamp,
) -> Decision {
    let mut granting = Granting::new(now);
    let mut would_deny = 0;
    for (index, (charge, line)) in charges.iter().zip(lines.iter_mut()).enumerate() {
        if charge.policy.shadow() {
            would_deny |= judge_shadow(index, charge, line, terms, now);
        } else if found.at > now {
            book(charge, line, terms, found, &mut granting);
        } else {
            debit(&charge.policy, charge.cost(), line, terms.permit, now, &mut granting);
        }
    }
    Decision { would_deny, ..granting.decision(terms.permit, found.at) }
}

/// When the cost fits, and the limit that made it wait.
struct Found {
    at: Timestamp,
    charge: usize,
    limit: usize,
    /// Whether it suits all limits. If the search was given up, it is only the earliest moment worth asking again.
    settled: bool,
}

/// The earliest moment from every frontier on at which all limits have room.
///
/// Each limit may push the moment on; once none does, it suits all. Without edges one round settles it, because a limit
/// that has room keeps it until somebody takes; with edges a later moment can fall into another window's edge.
fn earliest_for_all(charges: &[Charge], lines: &[Account], now: Timestamp) -> Found {
    let mut found = Found::from(now);
    for (index, (charge, line)) in charges.iter().zip(lines).enumerate() {
        if !charge.policy.shadow() && charges_anything(&charge.policy, charge.cost()) {
            found.not_before(index, line);
        }
    }
    found.settle(|found| {
        for (index, (charge, line)) in charges.iter().zip(lines).enumerate() {
            if !charge.policy.shadow() {
                found.push_on(index, &charge.policy, charge.cost(), line.as_of(), line.meters.iter());
            }
        }
    });
    found
}

impl Found {
    fn from(at: Timestamp) -> Self {
        Self { at, charge: 0, limit: 0, settled: false }
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
    fn not_before(&mut self, index: usize, line: &Account) {
        if line.frontier() > self.at {
            (self.at, self.charge, self.limit) = (line.frontier(), index, line.frontier_limit());
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
        for (limit_index, ((limit, amount), meter)) in policy.amounts(cost).zip(meters).enumerate() {
            if amount == 0 {
                continue;
            }
            let at = limit.earliest(meter.borrow(), amount, as_of, self.at, policy.edge());
            if at > self.at {
                (self.at, self.charge, self.limit) = (at, index, limit_index);
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
    ) -> Option<FastDecision> {
        let possible = policy.amounts(cost).all(|(limit, amount)| amount <= limit.capacity());
        if policy.shadow() || !possible || !charges_anything(policy, cost) {
            return None;
        }
        self.settle(|found| found.push_on(0, policy, cost, as_of, meters.clone()));
        (self.at > now).then_some(FastDecision::Denied { now, retry_at: self.at, limit: self.limit })
    }
}

/// Debits every meter of the line at `at`, after bringing all of them there, also those that are charged nothing.
#[inline]
fn debit(
    policy: &Policy,
    cost: &Cost,
    line: &mut Account,
    permit: PermitId,
    at: Timestamp,
    granting: &mut Granting,
) {
    let span = Advance { as_of: line.as_of(), at, edge: policy.edge() };
    let mut expires = Timestamp::EPOCH;
    for ((limit, amount), meter) in policy.amounts(cost).zip(&mut *line.meters) {
        let debited = limit.debit(meter, amount, span, permit);
        expires = expires.max(debited.expires);
        if amount > 0 {
            granting.good_until = granting.good_until.min(debited.good_until);
            granting.over |= !debited.holds;
        }
    }
    line.changed(granting.now, expires, policy);
}

/// Takes a place in line: the debit at a later time, with the state before it kept for one undo.
fn book(charge: &Charge, line: &mut Account, terms: &Terms, found: &Found, granting: &mut Granting) {
    let undo = Undo {
        permit: terms.permit,
        meters: line.meters.clone(),
        as_of: line.as_of(),
        frontier: line.frontier(),
        frontier_limit: u8::try_from(line.frontier_limit()).unwrap_or(0),
    };
    debit(&charge.policy, charge.cost(), line, terms.permit, found.at, granting);
    let extra = line.extra_mut();
    extra.frontier = found.at;
    extra.frontier_limit = u8::try_from(found.limit).unwrap_or(0);
    extra.undo = Some(undo);
    line.note_expiry(&charge.policy);
}

/// Judges a shadow by itself, now. One that would grant is debited; one that would not is reported, and its line lives on as
/// after any denial (I6).
fn judge_shadow(index: usize, charge: &Charge, line: &mut Account, terms: &Terms, now: Timestamp) -> u16 {
    let mut found = Found { at: now.max(line.frontier()), charge: index, limit: 0, settled: false };
    found.push_on(index, &charge.policy, charge.cost(), line.as_of(), line.meters.iter());
    if found.at <= now && refuse_above_limit(charge).is_ok() {
        debit(&charge.policy, charge.cost(), line, terms.permit, now, &mut Granting::new(now));
        return 0;
    }
    line.keep_longer(&charge.policy);
    shadow_bit(index)
}

/// What every limit of every charge shows now, or at its frontier if that lies ahead.
pub(crate) fn read_all(charges: &[Charge], lines: &[Account], now: Timestamp) -> SmallVec<[ChargeStatus; 1]> {
    let status = |(charge, line): (&Charge, &Account)| {
        let readings = read_line(&charge.policy, line, now).collect();
        ChargeStatus { policy: Arc::clone(&charge.policy), readings }
    };
    charges.iter().zip(lines).map(status).collect()
}

fn read_line(policy: &Policy, line: &Account, now: Timestamp) -> impl Iterator<Item = Reading> {
    let (as_of, at) = (line.as_of(), now.max(line.as_of()));
    policy.limits().iter().zip(&*line.meters).map(move |(limit, meter)| limit.read(meter, as_of, at))
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
fn refuse_impossible(charge: &Charge) -> Result<(), Refusal> {
    if charge.policy.shadow() { Ok(()) } else { refuse_above_limit(charge) }
}

fn refuse_above_limit(charge: &Charge) -> Result<(), Refusal> {
    match charge.amounts().find(|(limit, amount)| *amount > limit.capacity()) {
        Some((limit, amount)) => Err(above_limit(charge.policy.name(), limit, amount)),
        None => Ok(()),
    }
}

/// Only a take under one enforced policy has a line to stand in.
fn may_book(charges: &[Charge]) -> bool {
    let mut enforced = charges.iter().filter(|charge| !charge.policy.shadow());
    matches!((enforced.next(), enforced.next()), (Some(charge), None) if charge.policy.may_book())
}

fn longest_wait(charges: &[Charge], terms: &Terms) -> Span {
    charges
        .iter()
        .filter(|charge| !charge.policy.shadow())
        .fold(terms.max_wait, |wait, charge| wait.min(charge.policy.max_wait()))
}

fn charges_anything(policy: &Policy, cost: &Cost) -> bool {
    policy.amounts(cost).any(|(_, amount)| amount > 0)
}
