//! Take and begin in the model.

use smallvec::SmallVec;
use tollway_core::bounds::{CALL_ID_REMEMBERED, CALL_IDS_MAX};
use tollway_core::{
    Algorithm, Begun, Booking, CallId, Charge, ChargeStatus, Decision, Denial, Limit, Reading, Refusal, Span,
    TakeOutcome, Terms, Timestamp,
};

use super::account::{Account, Asked, RememberedTake, Undo};
use super::log::{Entry, slot_life, within};

/// A decision, and whether anything was taken.
type Taken = (Decision, bool);

/// A take, counted once if it has an id.
pub(super) fn take(
    charges: &[Charge],
    accounts: &mut [Account],
    terms: &Terms,
    now: Timestamp,
) -> Result<Taken, Refusal> {
    let Some(id) = &terms.call else { return decide(charges, accounts, terms, now) };
    let keeper = first_in_key_order(charges);
    let asked = asked(charges);
    // An id expires by the time of the account that remembers it.
    let live = |call: &&RememberedTake| call.expires > now;
    if let Some(known) = accounts[keeper].calls.iter().filter(live).find(|call| call.id == *id) {
        if known.asked != asked {
            return Err(Refusal::IdReused(id.to_string()));
        }
        let permit = known.permit;
        let lacks_slot = |(charge, account): (&Charge, &Account)| {
            let slots = charge.policy.limits().iter().filter(|limit| slot_life(limit).is_some());
            let held = |limit: &Limit| {
                account.log(limit).slots.iter().any(|(holder, until)| *holder == permit && *until > now)
            };
            !charge.policy.shadow() && slots.into_iter().any(|limit| !held(limit))
        };
        if charges.iter().zip(accounts.iter()).any(lacks_slot) {
            return Err(Refusal::CallOver(id.to_string()));
        }
        let charges = if terms.readings { read_all(charges, accounts, now) } else { SmallVec::new() };
        return Ok((Decision { repeated: true, now, charges, ..known.decision.clone() }, false));
    }
    if accounts[keeper].calls.iter().filter(live).count() >= CALL_IDS_MAX {
        return Err(Refusal::TooManyIds);
    }
    let taken = decide(charges, accounts, terms, now)?;
    if let Some(Booking { permit, .. }) = taken.0.booking().copied() {
        let decision = Decision { charges: SmallVec::new(), ..taken.0.clone() };
        let expires = now.plus(CALL_ID_REMEMBERED);
        accounts[keeper].record_change(&charges[keeper].policy, now);
        accounts[keeper].calls.push(RememberedTake { id: id.clone(), asked, permit, decision, expires });
    }
    Ok(taken)
}

/// Costs nothing while the permit is good. Too late, it takes again under an id made of the permit.
pub(super) fn begin(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: &Booking,
    terms: &Terms,
    now: Timestamp,
) -> Result<(Begun, bool), Refusal> {
    if now < booking.at {
        return Ok((Begun::Early(booking.at.since(now)), false));
    }
    let held_until = accounts.iter().map(|account| account.held_until).max().unwrap_or_default();
    if now < held_until {
        return Ok((Begun::Early(held_until.since(now)), false));
    }
    let good = now < booking.good_until || still_good(charges, accounts, booking, now);
    if good && !cut_since(charges, accounts, booking) {
        return Ok((Begun::Now, false));
    }
    let second = CallId::of_second_take(booking.permit);
    let mut after = accounts.to_vec();
    for (charge, account) in charges.iter().zip(&mut after) {
        for limit in charge.policy.limits() {
            account.log_mut(limit).slots.retain(|(holder, _)| *holder != booking.permit);
        }
    }
    let (decision, changed) = take(charges, &mut after, &Terms { call: Some(second), ..terms.clone() }, now)?;
    if changed {
        accounts.clone_from_slice(&after);
    }
    Ok((Begun::Again(decision), changed))
}

/// Whether the rate was cut after the booking was granted.
fn cut_since(charges: &[Charge], accounts: &[Account], booking: &Booking) -> bool {
    charges.iter().zip(accounts).any(|(charge, account)| {
        let mut adaptive = charge.policy.limits().iter().filter(|limit| limit.is_adaptive());
        adaptive.any(|limit| {
            let learned = &account.log(limit).learned;
            learned.cut > 0 && booking.granted_at <= learned.cut_at
        })
    })
}

/// A permit that renewed its slots is good until its windows end.
fn still_good(charges: &[Charge], accounts: &[Account], booking: &Booking, now: Timestamp) -> bool {
    let good = |charge: &Charge, account: &Account, limit: &Limit| match limit.algorithm() {
        Algorithm::Concurrency { .. } => {
            let mut slots = account.log(limit).slots.iter();
            slots.any(|(holder, until)| *holder == booking.permit && *until > now)
        }
        Algorithm::FromFirstCall(period) => {
            account.log(limit).running(*period, now).is_some_and(|(window, _)| within(window, booking.at))
        }
        Algorithm::Window(_)
        | Algorithm::Sliding(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_) => {
            now < account.log(limit).good_until(limit, booking.at, charge.policy.edge())
        }
    };
    charges.iter().any(|charge| charge.policy.holds_slots())
        && charges.iter().zip(accounts).all(|(charge, account)| {
            charge.amounts().all(|(limit, amount)| amount == 0 || good(charge, account, limit))
        })
}

fn decide(
    charges: &[Charge],
    accounts: &mut [Account],
    terms: &Terms,
    now: Timestamp,
) -> Result<Taken, Refusal> {
    for charge in charges.iter().filter(|charge| !charge.policy.shadow()) {
        refuse_above_limit(charge)?;
    }
    let place = find_booking(charges, accounts, now);
    let enforced: Vec<&Charge> = charges.iter().filter(|charge| !charge.policy.shadow()).collect();
    let longest_wait = enforced.iter().map(|charge| charge.policy.max_wait()).fold(terms.max_wait, Span::min);
    let may_book = enforced.len() == 1 && enforced.iter().all(|charge| books_ahead(charge));
    if place.at > now && !(may_book && place.at.since(now) <= longest_wait) {
        let BookingTime { at: retry_at, charge, limit, held } = place;
        let denied = Decision::new(now, TakeOutcome::Denied(Denial { retry_at, charge, limit, held }));
        return Ok((with_readings(denied, charges, accounts, terms), false));
    }
    let mut good_until = Timestamp::MAX;
    let mut would_deny = 0;
    for (index, (charge, account)) in charges.iter().zip(&mut *accounts).enumerate() {
        if !charge.policy.shadow() {
            good_until = good_until.min(book(charge, account, terms, &place, now));
        } else if shadow_grants(charge, account, now) {
            book(charge, account, terms, &BookingTime { at: now, charge: 0, limit: 0, held: false }, now);
        } else {
            would_deny |= 1 << index;
            account.denied(&charge.policy);
        }
    }
    let booking = Booking { permit: terms.permit, granted_at: now, at: place.at, good_until };
    let granted = Decision { would_deny, ..Decision::new(now, TakeOutcome::Granted(booking)) };
    Ok((with_readings(granted, charges, accounts, terms), true))
}

fn with_readings(decision: Decision, charges: &[Charge], accounts: &[Account], terms: &Terms) -> Decision {
    let now = decision.now;
    let charges = if terms.readings { read_all(charges, accounts, now) } else { SmallVec::new() };
    Decision { charges, ..decision }
}

/// The time of a booking, and the limit that delayed it.
struct BookingTime {
    at: Timestamp,
    charge: usize,
    limit: usize,
    /// Whether the vendor's hold delayed it.
    held: bool,
}

/// The earliest time that fits all limits of the enforced charges, not before any of their frontiers.
///
/// It repeats, because the time one limit needs can fall into the edge of another.
fn find_booking(charges: &[Charge], accounts: &[Account], now: Timestamp) -> BookingTime {
    let mut place = BookingTime { at: now, charge: 0, limit: 0, held: false };
    let enforced =
        || charges.iter().zip(accounts).enumerate().filter(|(_, (charge, _))| !charge.policy.shadow());
    for (index, (charge, account)) in enforced() {
        let charged = charge.amounts().any(|(_, amount)| amount > 0);
        if charged {
            not_before(&mut place, index, account);
        }
    }
    loop {
        let before = place.at;
        for (index, (charge, account)) in enforced() {
            delay_past(&mut place, index, charge, account);
        }
        if place.at == before {
            return place;
        }
    }
}

/// Not before the queue's end, and not while the vendor holds the account.
fn not_before(place: &mut BookingTime, index: usize, account: &Account) {
    if account.frontier > place.at {
        let limit = account.frontier_limit;
        *place = BookingTime { at: account.frontier, charge: index, limit, held: false };
    }
    if account.held_until > place.at {
        *place = BookingTime { at: account.held_until, charge: index, limit: 0, held: true };
    }
}

fn delay_past(place: &mut BookingTime, charge_index: usize, charge: &Charge, account: &Account) {
    for (limit_index, (limit, amount)) in charge.amounts().enumerate() {
        if amount == 0 {
            continue;
        }
        let at = account.log(limit).earliest(limit, amount, place.at, charge.policy.edge());
        let capped = |(left, until): &(u64, Timestamp)| at < *until && amount > *left;
        let at =
            account.caps.get(&limit.identity()).filter(|cap| capped(cap)).map_or(at, |(_, until)| *until);
        if at > place.at {
            *place = BookingTime { at, charge: charge_index, limit: limit_index, held: false };
        }
    }
}

/// Books the charge's cost now or ahead. A booking ahead is remembered for one undo.
fn book(
    charge: &Charge,
    account: &mut Account,
    terms: &Terms,
    place: &BookingTime,
    now: Timestamp,
) -> Timestamp {
    let at = place.at;
    let ahead = at > now;
    let (frontier, frontier_limit) = (account.frontier, account.frontier_limit);
    let grants = account.adaptive_log(&charge.policy).map_or(0, |log| log.learned.grants);
    let mut good_until = Timestamp::MAX;
    for (limit, amount) in charge.amounts() {
        if amount == 0 {
            continue;
        }
        if let Some((left, until)) = account.caps.get_mut(&limit.identity())
            && at < *until
        {
            *left = left.saturating_sub(amount);
        }
        let log = account.log_mut(limit);
        if limit.is_adaptive() {
            log.learned.grants = log.grants(limit, at) + amount;
        }
        match limit.algorithm() {
            Algorithm::Concurrency { expires } => log.slots.push((terms.permit, at.plus(*expires))),
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_) => {
                let permit = terms.permit;
                log.entries.push(Entry { when: at, booked_at: at, permit, minus: 0, plus: amount });
            }
        }
        good_until = good_until.min(log.good_until(limit, at, charge.policy.edge()));
    }
    account.undo = None;
    if ahead {
        account.undo = Some(Undo { permit: terms.permit, frontier, frontier_limit, grants });
        (account.frontier, account.frontier_limit) = (at, place.limit);
    }
    account.record_change(&charge.policy, now);
    good_until
}

/// Decides a shadow policy by itself, now.
fn shadow_grants(charge: &Charge, account: &Account, now: Timestamp) -> bool {
    if refuse_above_limit(charge).is_err() {
        return false;
    }
    let mut place = BookingTime { at: now, charge: 0, limit: 0, held: false };
    not_before(&mut place, 0, account);
    delay_past(&mut place, 0, charge, account);
    place.at <= now
}

/// A reading of every limit: now, or at the frontier if that is later.
pub(super) fn read_all(
    charges: &[Charge],
    accounts: &[Account],
    now: Timestamp,
) -> SmallVec<[ChargeStatus; 1]> {
    let status = |(charge, account): (&Charge, &Account)| {
        let as_of = now.max(account.as_of());
        let read = |limit: &Limit| {
            let log = account.log(limit);
            let (capacity, used) = (log.capacity(limit), log.used(limit, as_of));
            let remaining = capacity.saturating_sub(used);
            let grants = if limit.is_adaptive() { log.grants(limit, as_of) } else { 0 };
            Reading { capacity, used, remaining, resets_at: log.resets_at(limit, as_of), as_of, grants }
        };
        let readings = charge.policy.limits().iter().map(read).collect();
        let held_until = Some(account.held_until).filter(|until| *until > now);
        ChargeStatus { policy: charge.policy.clone(), readings, held_until }
    };
    charges.iter().zip(accounts).map(status).collect()
}

fn refuse_above_limit(charge: &Charge) -> Result<(), Refusal> {
    for (limit, cost) in charge.amounts() {
        let capacity = limit.capacity();
        if cost > capacity {
            let (policy, limit) = (charge.policy.name().clone(), limit.name().clone());
            return Err(Refusal::AboveLimit { policy, limit, cost, capacity });
        }
    }
    Ok(())
}

fn books_ahead(charge: &Charge) -> bool {
    charge.policy.limits().iter().all(|limit| match limit.algorithm() {
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Bucket { .. }
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_) => true,
        Algorithm::Sliding(_) | Algorithm::Concurrency { .. } => false,
    })
}

/// The charges in a fixed order.
fn asked(charges: &[Charge]) -> Vec<Asked> {
    let of_charge = |charge: &Charge| {
        let amounts = charge.amounts().map(|(limit, amount)| (limit.identity(), amount)).collect();
        (charge.policy.name().to_string(), charge.subject.to_string(), amounts)
    };
    let mut asked: Vec<Asked> = charges.iter().map(of_charge).collect();
    asked.sort();
    asked
}

/// The charge whose account remembers the ids and refunds of the operation.
pub(super) fn first_in_key_order(charges: &[Charge]) -> usize {
    (0..charges.len()).min_by_key(|index| charges[*index].key()).unwrap_or(0)
}
