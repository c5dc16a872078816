//! Runs: consecutive equal takes of one account in a call. The script gets each run as one operation and usually grants it
//! in one step.

use std::sync::Arc;

use smallvec::SmallVec;
use tollway_core::{
    Action, Booking, Charge, ChargeStatus, Decision, Limit, Operation, Outcome, Outcomes, PermitId, Policy,
    Reading, Span, TakeOutcome, Terms,
};

use crate::pack::Packed;
use crate::reply::{outcome, statuses, time};

/// The operations, grouped into runs of equal takes.
pub(crate) fn runs(operations: &[Operation]) -> impl Iterator<Item = &[Operation]> {
    operations.chunk_by(is_equal_take)
}

/// The permits of a run of more than one take.
pub(crate) fn permits(run: &[Operation]) -> Option<Vec<PermitId>> {
    (run.len() > 1)
        .then(|| run.iter().filter_map(|take| plain_terms(take)).map(|terms| terms.permit).collect())
}

/// Whether both are takes that differ in nothing but their permit.
fn is_equal_take(one: &Operation, other: &Operation) -> bool {
    let (Some(terms), Some(others)) = (plain_terms(one), plain_terms(other)) else { return false };
    let ([charge], [others_charge]) = (&*one.charges, &*other.charges) else { return false };
    (terms.max_wait, terms.readings, terms.new_accounts)
        == (others.max_wait, others.readings, others.new_accounts)
        && charge.subject == others_charge.subject
        && charge.cost() == others_charge.cost()
        && (Arc::ptr_eq(&charge.policy, &others_charge.policy) || charge.policy == others_charge.policy)
}

/// The terms of a take whose outcome is all it leaves: no slot of its own, no learned rate, no id, no shadow. Its readings, if it has any,
/// follow from those of the last take in its run.
fn plain_terms(operation: &Operation) -> Option<&Terms> {
    let Action::Take(terms) = &operation.action else { return None };
    let counts_units = |policy: &Policy| !policy.limits().iter().any(Limit::counts_calls);
    let plain =
        operation.charges.iter().all(|charge| !charge.policy.shadow() && counts_units(&charge.policy));
    let readable = || operation.charges.iter().all(reads_evenly);
    (plain && terms.call.is_none() && (!terms.readings || readable())).then_some(terms)
}

/// Whether each charge moves the resets of its limits by a whole number of microseconds.
fn reads_evenly(charge: &Charge) -> bool {
    charge.amounts().all(|(limit, amount)| reset_moves_by(limit, amount).is_some())
}

/// How much later the limit resets because of this amount; none if that is not a whole number of microseconds. A window
/// resets at its end, whatever was taken.
fn reset_moves_by(limit: &Limit, amount: u64) -> Option<Span> {
    let Some(period) = limit.period().filter(|_| limit.refills()) else { return Some(Span::ZERO) };
    let (time, rate) =
        (u128::from(amount).saturating_mul(period.as_micros().into()), u128::from(limit.amount()));
    let whole = time.checked_rem(rate) == Some(0);
    whole.then(|| u64::try_from(time.checked_div(rate)?).ok().map(Span::from_micros)).flatten()
}

/// The readings after a take that this many takes of its run followed.
fn readings_before(charge: &Charge, last: &ChargeStatus, followed_by: u64) -> ChargeStatus {
    let before = |((limit, amount), reading): ((&Limit, u64), &Reading)| {
        let used = reading.used.saturating_sub(amount.saturating_mul(followed_by));
        let moved = reset_moves_by(limit, amount).unwrap_or_default().times(followed_by);
        let remaining = reading.capacity.saturating_sub(used);
        Reading { used, remaining, resets_at: reading.resets_at.minus(moved), ..*reading }
    };
    let readings = charge.amounts().zip(&last.readings).map(before).collect();
    ChargeStatus { policy: Arc::clone(&last.policy), readings, held_until: last.held_until }
}

/// The outcomes of operations that were sent as runs; nothing if the bytes are not that.
pub(crate) fn outcomes_of_runs(bytes: &[u8], operations: &[Operation]) -> Option<Outcomes> {
    let packed = Packed::read(bytes)?;
    let mut list = packed.list()?.iter();
    let mut outcomes = Outcomes::with_capacity(operations.len());
    for run in runs(operations) {
        let packed = list.next()?.list()?;
        match run {
            [operation] => outcomes.push(outcome(packed, operation)?),
            run => add_outcomes_of(run, packed, &mut outcomes)?,
        }
    }
    list.next().is_none().then_some(outcomes)
}

fn add_outcomes_of(run: &[Operation], packed: &[Packed], outcomes: &mut Outcomes) -> Option<()> {
    match packed {
        [kind, granted_at, now, at, good_until, over, shown @ ..] if kind.text()? == b"together" => {
            let (now, over) = (time(now)?, over.boolean()?);
            let (granted_at, at, good_until) = (time(granted_at)?, time(at)?, time(good_until)?);
            let charges = &*run.first()?.charges;
            let (last, mut made) = match shown {
                [] => (SmallVec::new(), 0),
                [shown] => (statuses(shown, charges)?, 0),
                [shown, made] => (statuses(shown, charges)?, u16::try_from(made.number()?).ok()?),
                _ => return None,
            };
            let mut followed_by = u64::try_from(run.len()).ok()?;
            let granted = |permit| {
                followed_by = followed_by.saturating_sub(1);
                let booking = Booking { permit, granted_at, at, good_until };
                let statuses = charges.iter().zip(&last);
                let charges =
                    statuses.map(|(charge, last)| readings_before(charge, last, followed_by)).collect();
                let outcome = TakeOutcome::Granted(booking);
                let accounts_made = std::mem::take(&mut made);
                Outcome::Decided(Decision { over, charges, accounts_made, ..Decision::new(now, outcome) })
            };
            outcomes.extend(permits(run)?.into_iter().map(granted));
        }
        [kind, apart] if kind.text()? == b"apart" => {
            let apart = apart.list()?;
            let last = apart.last()?;
            for (number, operation) in run.iter().enumerate() {
                // A take after one that was not granted gets the same answer.
                outcomes.push(outcome(apart.get(number).unwrap_or(last).list()?, operation)?);
            }
        }
        _ => return None,
    }
    Some(())
}
