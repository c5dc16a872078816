//! Applies one operation to its accounts. Every store calls this while it holds them.

use crate::bounds::CHARGES_PER_TAKE_MAX;
use crate::correct::{done, free_slots, give_back, renew, reset, settle};
use crate::decide::read_all;
use crate::decision::{Decision, Refusal, TakeOutcome};
use crate::feedback::learn;
use crate::store::{Begun, Outcome, Settled};
use crate::take_once::take;
use crate::{Account, Action, Booking, CallId, Charge, Operation, Terms, Timestamp};

/// The outcome of an operation, and whether the store must write the accounts.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The outcome to return.
    pub outcome: Outcome,
    /// Whether an account has changed. If not, the store must not create one and need not write any.
    pub changed: bool,
}

/// Applies one operation at the store's time; `accounts[i]` is the account of `charges[i]`.
pub fn apply(operation: &Operation, accounts: &mut [Account], now: Timestamp) -> Applied {
    let fitted =
        operation.charges.iter().zip(accounts.iter()).all(|(charge, account)| account.fits(&charge.policy));
    if !fitted {
        return apply_to_changed_policy(operation, accounts, now);
    }
    apply_fitted(operation, accounts, now)
}

/// The limits of a policy have changed since an account was written. Rearranges the meters, and keeps that
/// only if the operation changes the account anyway.
#[cold]
fn apply_to_changed_policy(operation: &Operation, accounts: &mut [Account], now: Timestamp) -> Applied {
    let before = accounts.to_vec();
    operation
        .charges
        .iter()
        .zip(accounts.iter_mut())
        .for_each(|(charge, account)| account.fit(&charge.policy));
    let applied = apply_fitted(operation, accounts, now);
    let denied = matches!(&applied.outcome, Outcome::Decided(decision) if !decision.is_granted());
    if denied || !applied.changed {
        // A denial may extend the expiry. Everything else stays as it was.
        let expiries = accounts.iter().map(|account| account.expires).zip(before);
        let extended: Vec<Account> = expiries
            .map(|(expires, account)| Account { expires: expires.max(account.expires), ..account })
            .collect();
        accounts.clone_from_slice(&extended);
    }
    applied
}

fn apply_fitted(operation: &Operation, accounts: &mut [Account], now: Timestamp) -> Applied {
    let refused = |refusal| Applied { outcome: Outcome::Refused(refusal), changed: false };
    try_apply(operation, accounts, now).unwrap_or_else(refused)
}

fn try_apply(operation: &Operation, accounts: &mut [Account], now: Timestamp) -> Result<Applied, Refusal> {
    let charges = &*operation.charges;
    check_charges(charges)?;
    let (outcome, changed) = match &operation.action {
        Action::Take(terms) => {
            let decision = take(charges, accounts, terms, now)?;
            let changed = match decision.outcome {
                TakeOutcome::Granted(_) => changes(&decision),
                TakeOutcome::Denied(_) => extend_expiry(charges, accounts),
            };
            (Outcome::Decided(decision), changed)
        }
        Action::Preview(terms) => {
            let mut copies = accounts.to_vec();
            (Outcome::Decided(take(charges, &mut copies, terms, now)?), false)
        }
        Action::Begin(booking, terms) => {
            let begun = begin(charges, accounts, *booking, terms, now)?;
            let changed = matches!(&begun, Begun::Again(decision) if changes(decision));
            (Outcome::Begun(begun), changed)
        }
        Action::Settle { booking, actual, remember } => {
            let settled = settle(charges, accounts, *booking, actual, *remember, now)?;
            (Outcome::Settled(settled), matches!(settled, Settled::Whole | Settled::Partly))
        }
        Action::Return { booking, remember } => {
            let settled = give_back(charges, accounts, *booking, *remember, now);
            (Outcome::Settled(settled), matches!(settled, Settled::Whole | Settled::Partly))
        }
        Action::Done(permit) => {
            let held = done(charges, accounts, *permit, now);
            (Outcome::Done(held), held)
        }
        Action::Renew(permit) => {
            let held = renew(charges, accounts, *permit, now);
            (Outcome::Renewed(held), held)
        }
        Action::Peek => {
            let now = accounts.iter().fold(now, |now, account| now.max(account.seen));
            (Outcome::Peeked(read_all(charges, accounts, now)), false)
        }
        Action::Reset => {
            reset(charges, accounts, now);
            (Outcome::Reset, true)
        }
        Action::Feedback(feedback) => {
            let (learned, changed) = learn(charges, accounts, feedback, now)?;
            (Outcome::Learned(learned), changed)
        }
    };
    Ok(Applied { outcome, changed })
}

/// Costs nothing while the permit is good. Too late, or granted under a rate that was cut since, it takes again at the back
/// of the queue: once, however often it is repeated. A vendor's hold delays it.
fn begin(
    charges: &[Charge],
    accounts: &mut [Account],
    booking: Booking,
    terms: &Terms,
    now: Timestamp,
) -> Result<Begun, Refusal> {
    let now = accounts.iter().fold(now, |now, account| now.max(account.seen));
    if now < booking.at {
        return Ok(Begun::Early(booking.at.since(now)));
    }
    let held_until = accounts.iter().map(Account::held_until).max().unwrap_or(Timestamp::EPOCH);
    if now < held_until {
        return Ok(Begun::Early(held_until.since(now)));
    }
    let good = now < booking.good_until || still_good(charges, accounts, booking, now);
    if good && !cut_since(accounts, booking) {
        return Ok(Begun::Now);
    }
    let second = CallId::of_second_take(booking.permit);
    // The permit's old slots must not block its second take. They are freed only if that is granted.
    let before = accounts.to_vec();
    free_slots(charges, accounts, booking.permit);
    let taken = take(charges, accounts, &Terms { call: Some(second), ..terms.clone() }, now);
    if !taken.as_ref().is_ok_and(changes) {
        accounts.clone_from_slice(&before);
    }
    taken.map(Begun::Again)
}

/// Whether a rate was cut after this permit was granted: its place is one of a queue that was too fast.
fn cut_since(accounts: &[Account], booking: Booking) -> bool {
    let meters = accounts.iter().flat_map(|account| &*account.meters);
    let mut adaptive = meters.filter_map(|meter| meter.state.adaptive());
    adaptive.any(|adaptive| adaptive.cut > 0 && booking.granted_at <= adaptive.cut_at)
}

/// A permit may have renewed its slots beyond `good_until`; then only its windows end it.
fn still_good(charges: &[Charge], accounts: &[Account], booking: Booking, now: Timestamp) -> bool {
    charges.iter().any(|charge| charge.policy.holds_slots())
        && charges.iter().zip(accounts).all(|(charge, account)| {
            let edge = charge.policy.edge();
            charge.amounts().zip(&*account.meters).all(|((limit, amount), meter)| {
                amount == 0 || limit.still_good(meter, booking.permit, booking.at, now, edge)
            })
        })
}

/// A denial changes no meter, but an account whose rate was lowered must live longer than it says.
fn extend_expiry(charges: &[Charge], accounts: &mut [Account]) -> bool {
    let mut extended = false;
    for (charge, account) in charges.iter().zip(accounts) {
        extended |= account.extend_expiry(&charge.policy);
    }
    extended
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
