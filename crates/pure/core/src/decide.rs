//! Decides a take: a pure function of the charges, their accounts and the time.
//!
//! Stores make it atomic; the server and the clients make it reachable.

use std::borrow::Borrow;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::account::Undo;
use crate::algorithm::{Advance, Meter};
use crate::bounds::SEARCH_STEPS_MAX;
use crate::decision::{
    ChargeStatus, Decision, Denial, FastDecision, Reading, Refusal, TakeOutcome, above_limit, shadow_bit,
};
use crate::feedback::Cap;
use crate::{Account, Booking, Charge, Cost, Limit, PermitId, Policy, Span, Terms, Timestamp};

/// Decides a take: all costs of all charges, or nothing.
///
/// `accounts[i]` is the account of `charges[i]`. A grant debits the accounts. A denial leaves them untouched (I2, I3),
/// except for meters of limits that the policy has changed.
///
/// The search finds the earliest time, from the latest frontier on, at which every limit has room. If that is now, the
/// take is granted now. If it is within `max_wait` and the take may book ahead, it is granted for that time, and the
/// frontier moves there. Otherwise the take is denied, and that time is `retry_at`.
pub fn decide(
    charges: &[Charge],
    accounts: &mut [Account],
    terms: &Terms,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    if let ([charge], [account], None, false) = (charges, &mut *accounts, &terms.call, terms.readings)
        && let Some(granted) = grant_now(&charge.policy, charge.cost(), account, terms.permit, now)
    {
        return Ok(granted.decision(terms.permit, granted.now));
    }
    search(charges, accounts, terms, now)
}

/// The fast path: one policy, no id, no wait. The flag says whether the grant broke I1, which must raise an alarm.
///
/// Returns `None`, with nothing changed, for anything else: a shadow, a policy whose limits have changed, a cost that
/// can never be granted. The caller then uses [`decide`] or [`apply`](crate::apply).
pub fn decide_fast(
    policy: &Policy,
    cost: &Cost,
    account: &mut Account,
    permit: PermitId,
    now: Timestamp,
) -> Option<(FastDecision, bool)> {
    if let Some(Granting { now, good_until, over }) = grant_now(policy, cost, account, permit, now) {
        return Some((FastDecision::Granted { now, good_until }, over));
    }
    let denied = deny_now(policy, cost, account, now.max(account.seen))?;
    account.extend_expiry(policy);
    Some((denied, false))
}

/// The running result of a grant's debits.
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

/// Debits one policy if its queue is empty and every limit has room; otherwise changes nothing.
#[inline]
fn grant_now(
    policy: &Policy,
    cost: &Cost,
    account: &mut Account,
    permit: PermitId,
    now: Timestamp,
) -> Option<Granting> {
    let now = now.max(account.seen);
    if policy.shadow()
        || account.frontier() > now
        || account.restricted(now)
        || !has_room(policy, cost, account, now)
    {
        return None;
    }
    let mut granting = Granting::new(now);
    debit(policy, cost, account, permit, now, &mut granting);
    Some(granting)
}

/// When a policy without room now has room.
fn deny_now(policy: &Policy, cost: &Cost, account: &Account, now: Timestamp) -> Option<FastDecision> {
    if !account.fits(policy) || account.restricted(now) {
        return None;
    }
    let mut earliest = EarliestFit::from(now);
    earliest.not_before(0, account);
    earliest.deny(policy, cost, account.as_of(), account.meters.iter(), now)
}

/// The same for bare meters: they match the policy, the queue is empty, and there is no room now.
pub(crate) fn deny_meters(
    policy: &Policy,
    cost: &Cost,
    as_of: Timestamp,
    meters: impl Iterator<Item = Meter> + Clone,
    now: Timestamp,
) -> Option<FastDecision> {
    EarliestFit::from(now).deny(policy, cost, as_of, meters, now)
}

#[inline]
fn has_room(policy: &Policy, cost: &Cost, account: &Account, now: Timestamp) -> bool {
    let (as_of, edge) = (account.as_of(), policy.edge());
    policy.limits().len() == account.meters.len()
        && policy.amounts(cost).zip(&*account.meters).all(|((limit, amount), meter)| {
            limit.identity() == meter.identity
                && amount <= limit.capacity()
                && (amount == 0 || limit.earliest(meter, amount, as_of, now, edge) <= now)
        })
}

/// The slow path: any number of policies, shadows and bookings.
fn search(
    charges: &[Charge],
    accounts: &mut [Account],
    terms: &Terms,
    mut now: Timestamp,
) -> Result<Decision, Refusal> {
    for (charge, account) in charges.iter().zip(accounts.iter_mut()) {
        now = now.max(account.seen);
        account.fit(&charge.policy);
        refuse_impossible(charge)?;
    }
    let earliest = earliest_for_all(charges, accounts, now);
    let in_reach =
        earliest.fits_all && may_book(charges) && earliest.at.since(now) <= longest_wait(charges, terms);
    let granted = earliest.at <= now || in_reach;
    let mut decision = if granted {
        grant_all(charges, accounts, terms, &earliest, now)
    } else {
        let EarliestFit { at: retry_at, charge, limit, held, .. } = earliest;
        let denial = Denial { retry_at, charge, limit, held };
        Decision::new(now, TakeOutcome::Denied(denial))
    };
    if terms.readings {
        decision.charges = read_all(charges, accounts, now);
    }
    Ok(decision)
}

fn grant_all(
    charges: &[Charge],
    accounts: &mut [Account],
    terms: &Terms,
    earliest: &EarliestFit,
    now: Timestamp,
) -> Decision {
    let mut granting = Granting::new(now);
    let mut would_deny = 0;
    for (index, (charge, account)) in charges.iter().zip(accounts.iter_mut()).enumerate() {
        if charge.policy.shadow() {
            would_deny |= judge_shadow(index, charge, account, terms, now);
        } else if earliest.at > now {
            book(charge, account, terms, earliest, &mut granting);
        } else {
            debit(&charge.policy, charge.cost(), account, terms.permit, now, &mut granting);
        }
    }
    Decision { would_deny, ..granting.decision(terms.permit, earliest.at) }
}

/// The earliest time at which the cost fits, and the limit that delays it.
struct EarliestFit {
    at: Timestamp,
    charge: usize,
    limit: usize,
    /// Whether the vendor's hold delays it, not the limit.
    held: bool,
    /// Whether it fits all limits at `at`. If the search gave up, `at` is only the earliest time worth a retry.
    fits_all: bool,
}

/// The earliest time, from every frontier on, at which all limits have room.
///
/// Each limit may delay it; once none does, it fits all. Without edges one round suffices, because a limit with room
/// keeps it until the next take. With edges a later time can fall into another window's edge.
fn earliest_for_all(charges: &[Charge], accounts: &[Account], now: Timestamp) -> EarliestFit {
    let mut earliest = EarliestFit::from(now);
    for (index, (charge, account)) in charges.iter().zip(accounts).enumerate() {
        if !charge.policy.shadow() && takes_anything(&charge.policy, charge.cost()) {
            earliest.not_before(index, account);
        }
    }
    earliest.repeat_until_stable(|earliest| {
        for (index, (charge, account)) in charges.iter().zip(accounts).enumerate() {
            if !charge.policy.shadow() {
                earliest.delay_past(
                    index,
                    &charge.policy,
                    charge.cost(),
                    account.as_of(),
                    account.meters.iter(),
                    account.caps(),
                );
            }
        }
    });
    earliest
}

impl EarliestFit {
    fn from(at: Timestamp) -> Self {
        Self { at, charge: 0, limit: 0, held: false, fits_all: false }
    }

    /// Repeats the round until nothing delays the time any more.
    fn repeat_until_stable(&mut self, mut round: impl FnMut(&mut Self)) {
        for _ in 0..SEARCH_STEPS_MAX {
            let before = self.at;
            round(self);
            if self.at == before {
                self.fits_all = true;
                return;
            }
        }
    }

    /// A take may neither overtake the queue nor begin while the vendor holds the account.
    fn not_before(&mut self, index: usize, account: &Account) {
        if account.frontier() > self.at {
            (self.at, self.charge, self.limit) = (account.frontier(), index, account.frontier_limit());
            self.held = false;
        }
        if account.held_until() > self.at {
            (self.at, self.charge, self.limit, self.held) = (account.held_until(), index, 0, true);
        }
    }

    /// Delays the time past every limit of an account that has no room yet.
    fn delay_past<M: Borrow<Meter>>(
        &mut self,
        index: usize,
        policy: &Policy,
        cost: &Cost,
        as_of: Timestamp,
        meters: impl Iterator<Item = M>,
        caps: &[Cap],
    ) {
        for (limit_index, ((limit, amount), meter)) in policy.amounts(cost).zip(meters).enumerate() {
            if amount == 0 {
                continue;
            }
            let at = limit.earliest(meter.borrow(), amount, as_of, self.at, policy.edge());
            let cap = caps.iter().find(|cap| cap.identity == limit.identity());
            let at = cap.map_or(at, |cap| cap.earliest(amount, at));
            if at > self.at {
                (self.at, self.charge, self.limit, self.held) = (at, index, limit_index, false);
            }
        }
    }

    /// A denial by one policy without room now; `None` if the slow path must decide.
    fn deny<M: Borrow<Meter>>(
        mut self,
        policy: &Policy,
        cost: &Cost,
        as_of: Timestamp,
        meters: impl Iterator<Item = M> + Clone,
        now: Timestamp,
    ) -> Option<FastDecision> {
        let possible = policy.amounts(cost).all(|(limit, amount)| amount <= limit.capacity());
        if policy.shadow() || !possible || !takes_anything(policy, cost) {
            return None;
        }
        self.repeat_until_stable(|earliest| earliest.delay_past(0, policy, cost, as_of, meters.clone(), &[]));
        (self.at > now).then_some(FastDecision::Denied { now, retry_at: self.at, limit: self.limit })
    }
}

/// Advances every meter of the account to `at` and debits it there, also by zero.
#[inline]
fn debit(
    policy: &Policy,
    cost: &Cost,
    account: &mut Account,
    permit: PermitId,
    at: Timestamp,
    granting: &mut Granting,
) {
    let span = Advance { as_of: account.as_of(), at, edge: policy.edge() };
    let mut expires = Timestamp::EPOCH;
    for ((limit, amount), meter) in policy.amounts(cost).zip(&mut *account.meters) {
        let debited = limit.debit(meter, amount, span, permit);
        expires = expires.max(debited.expires);
        if amount > 0 {
            granting.good_until = granting.good_until.min(debited.good_until);
            granting.over |= !debited.holds;
        }
    }
    if let Some(extra) = &mut account.extra {
        extra.lower_caps(policy, cost, at);
    }
    account.record_debit(granting.now, expires, policy);
}

/// Books a place in the queue: debits at a later time, and keeps the state before it for one undo.
fn book(
    charge: &Charge,
    account: &mut Account,
    terms: &Terms,
    earliest: &EarliestFit,
    granting: &mut Granting,
) {
    let undo = Undo {
        permit: terms.permit,
        meters: account.meters.clone(),
        as_of: account.as_of(),
        frontier: account.frontier(),
        frontier_limit: u8::try_from(account.frontier_limit()).unwrap_or(0),
    };
    debit(&charge.policy, charge.cost(), account, terms.permit, earliest.at, granting);
    let extra = account.extra_mut();
    extra.frontier = earliest.at;
    extra.frontier_limit = u8::try_from(earliest.limit).unwrap_or(0);
    extra.undo = Some(undo);
    account.update_expiry(&charge.policy);
}

/// Decides a shadow policy by itself, now. A grant debits it. A denial is reported and extends the account's expiry, like
/// any denial.
fn judge_shadow(index: usize, charge: &Charge, account: &mut Account, terms: &Terms, now: Timestamp) -> u16 {
    let mut earliest = EarliestFit::from(now);
    earliest.not_before(index, account);
    let (policy, cost) = (&charge.policy, charge.cost());
    earliest.delay_past(index, policy, cost, account.as_of(), account.meters.iter(), account.caps());
    if earliest.at <= now && refuse_above_limit(charge).is_ok() {
        debit(&charge.policy, charge.cost(), account, terms.permit, now, &mut Granting::new(now));
        return 0;
    }
    account.extend_expiry(&charge.policy);
    shadow_bit(index)
}

/// A reading of every limit of every charge: now, or at the frontier if that is later.
pub(crate) fn read_all(
    charges: &[Charge],
    accounts: &[Account],
    now: Timestamp,
) -> SmallVec<[ChargeStatus; 1]> {
    let status = |(charge, account): (&Charge, &Account)| {
        let readings = read_account(&charge.policy, account, now).collect();
        let held_until = Some(account.held_until()).filter(|until| *until > now);
        ChargeStatus { policy: Arc::clone(&charge.policy), readings, held_until }
    };
    charges.iter().zip(accounts).map(status).collect()
}

fn read_account(policy: &Policy, account: &Account, now: Timestamp) -> impl Iterator<Item = Reading> {
    let (as_of, at) = (account.as_of(), now.max(account.as_of()));
    policy.limits().iter().zip(&*account.meters).map(move |(limit, meter)| limit.read(meter, as_of, at))
}

impl Limit {
    /// The reading of a meter at `at`; the meter is as of `as_of`.
    #[inline]
    pub(crate) fn read(&self, meter: &Meter, as_of: Timestamp, at: Timestamp) -> Reading {
        let (capacity, used) = (self.capacity_of(meter), self.used(meter, as_of, at));
        let remaining = capacity.saturating_sub(used);
        let (resets_at, grants) = (self.resets_at(meter, as_of, at), self.grants(meter, as_of, at));
        Reading { capacity, used, remaining, resets_at, as_of: at, grants }
    }
}

/// Refuses a cost that can never be granted. A shadow never refuses.
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

/// Only a take under exactly one enforced policy can wait in its queue.
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

fn takes_anything(policy: &Policy, cost: &Cost) -> bool {
    policy.amounts(cost).any(|(_, amount)| amount > 0)
}
