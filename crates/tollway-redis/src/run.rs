//! Runs: consecutive equal takes of one account in a call. The script gets each run as one operation and usually grants it
//! in one step.

use std::sync::Arc;

use tollway_core::{Action, Booking, Decision, Operation, Outcome, Outcomes, PermitId, TakeOutcome, Terms};

use crate::pack::Packed;
use crate::reply::{outcome, time};

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
    terms.max_wait == others.max_wait
        && charge.subject == others_charge.subject
        && charge.cost() == others_charge.cost()
        && (Arc::ptr_eq(&charge.policy, &others_charge.policy) || charge.policy == others_charge.policy)
}

/// The terms of a take whose outcome is all it leaves: no slot of its own, no id, no shadow.
fn plain_terms(operation: &Operation) -> Option<&Terms> {
    let Action::Take(terms) = &operation.action else { return None };
    let plain =
        operation.charges.iter().all(|charge| !charge.policy.shadow() && !charge.policy.holds_slots());
    (plain && terms.call.is_none() && !terms.readings).then_some(terms)
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
        [kind, granted_at, now, at, good_until, over] if kind.text()? == b"together" => {
            let (now, over) = (time(now)?, over.boolean()?);
            let (granted_at, at, good_until) = (time(granted_at)?, time(at)?, time(good_until)?);
            let granted = |permit| {
                let booking = Booking { permit, granted_at, at, good_until };
                Outcome::Decided(Decision { over, ..Decision::new(now, TakeOutcome::Granted(booking)) })
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
