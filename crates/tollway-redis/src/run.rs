//! Runs: equal takes of one line, one after the other in a call. The script is asked about all of them at once, and mostly
//! grants them in one step.

use tollway_core::{Decision, Grant, Outcome, Outcomes, OwnedOperation, OwnedTerms, OwnedVerb, PermitId};

use crate::pack::Packed;
use crate::reply::{outcome, time};

/// The operations, each with those after it that ask the same.
pub(crate) fn runs(operations: &[OwnedOperation]) -> impl Iterator<Item = &[OwnedOperation]> {
    operations.chunk_by(asks_the_same)
}

/// The permits of a run of more than one take.
pub(crate) fn permits(run: &[OwnedOperation]) -> Option<Vec<PermitId>> {
    (run.len() > 1)
        .then(|| run.iter().filter_map(|take| plain_terms(take)).map(|terms| terms.permit).collect())
}

/// Whether both are takes that differ in nothing but their permit.
fn asks_the_same(one: &OwnedOperation, other: &OwnedOperation) -> bool {
    let (Some(terms), Some(others)) = (plain_terms(one), plain_terms(other)) else { return false };
    let ([party], [others_party]) = (&*one.parties, &*other.parties) else { return false };
    terms.max_wait == others.max_wait
        && party.subject == others_party.subject
        && party.cost == others_party.cost
        && party.policy == others_party.policy
}

/// The terms of a take whose outcome is all it leaves: no slot of its own, no id, no shadow.
fn plain_terms(operation: &OwnedOperation) -> Option<&OwnedTerms> {
    let OwnedVerb::Take(terms) = &operation.verb else { return None };
    let plain = operation.parties.iter().all(|party| !party.policy.shadow() && !party.policy.holds_slots());
    (plain && terms.call.is_none() && !terms.readings).then_some(terms)
}

/// The outcomes of operations that were sent as runs; nothing if the bytes are not that.
pub(crate) fn outcomes_of_runs(bytes: &[u8], operations: &[OwnedOperation]) -> Option<Outcomes> {
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

fn add_outcomes_of(run: &[OwnedOperation], packed: &[Packed], outcomes: &mut Outcomes) -> Option<()> {
    match packed {
        [kind, granted_at, now, at, good_until, over] if kind.text()? == b"together" => {
            let grant = Grant {
                permit: PermitId(0),
                granted_at: time(granted_at)?,
                now: time(now)?,
                at: time(at)?,
                good_until: time(good_until)?,
                repeated: false,
                over: over.boolean()?,
                would_deny: 0,
                readings: Vec::new(),
            };
            let granted = |permit| Outcome::Decided(Decision::Granted(Grant { permit, ..grant.clone() }));
            outcomes.extend(permits(run)?.into_iter().map(granted));
        }
        [kind, apart] if kind.text()? == b"apart" => {
            let apart = apart.list()?;
            let last = apart.last()?;
            for (number, operation) in run.iter().enumerate() {
                // Whoever came after one that was not granted is told the same.
                outcomes.push(outcome(apart.get(number).unwrap_or(last).list()?, operation)?);
            }
        }
        _ => return None,
    }
    Some(())
}
