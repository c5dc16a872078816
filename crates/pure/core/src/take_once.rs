//! A take with a caller's id is granted once, however often it is repeated.

use smallvec::SmallVec;

use crate::bounds::CALL_ID_REMEMBERED;
use crate::decide::{decide, decide_fast, read_all};
use crate::decision::{Decision, FastDecision, Refusal, TakeOutcome};
use crate::fingerprint::Fingerprint;
use crate::remembered_calls::{RememberedCall, RememberedGrant};
use crate::{Account, Booking, CallId, Charge, Cost, FastCharge, PermitId, Policy, Terms, Timestamp};

/// A take, counted once if the caller gave it an id.
pub(crate) fn take(
    charges: &[Charge],
    accounts: &mut [Account],
    terms: &Terms,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let Some(call) = &terms.call else { return decide(charges, accounts, terms, now) };
    let keeper = first_in_key_order(charges);
    let asked = fingerprint(charges);
    let known_at = accounts.iter().fold(now, |now, account| now.max(account.seen));
    if let Some(extra) = accounts.get(keeper).and_then(|account| account.extra.as_deref()) {
        if let Some(known) = extra.calls.find(call, known_at) {
            let grant = known.grant;
            return if known.asked != asked {
                Err(Refusal::IdReused(call.to_string()))
            } else if !holds_all_slots(charges, accounts, grant.permit, known_at) {
                Err(Refusal::CallOver(call.to_string()))
            } else {
                Ok(repeat(grant, charges, accounts, terms, known_at))
            };
        }
        if !extra.calls.has_room(known_at) {
            return Err(Refusal::TooManyIds);
        }
    }
    let decision = decide(charges, accounts, terms, now)?;
    if let (Some(booking), Some((charge, account))) =
        (decision.booking(), charges.get(keeper).zip(accounts.get_mut(keeper)))
    {
        let Booking { permit, granted_at, at, good_until } = *booking;
        let would_deny = decision.would_deny;
        let grant = RememberedGrant { permit, granted_at, at, good_until, would_deny };
        account.advance_to(&charge.policy, decision.now);
        remember(account, call, asked, grant, decision.now);
        account.update_expiry(&charge.policy);
    }
    Ok(decision)
}

/// The fast path of a take with an id, as [`decide_fast`].
///
/// Returns `None`, with nothing changed, also for a known id and if no more ids can be remembered.
pub fn decide_fast_once(
    charge: FastCharge<'_>,
    account: &mut Account,
    call: &CallId,
    permit: PermitId,
    now: Timestamp,
) -> Option<(FastDecision, bool)> {
    let FastCharge { policy, subject, cost } = charge;
    let known_at = now.max(account.seen);
    if let Some(extra) = &account.extra
        && (extra.calls.find(call, known_at).is_some() || !extra.calls.has_room(known_at))
    {
        return None;
    }
    let (decided, over) = decide_fast(policy, cost, account, permit, now)?;
    if let FastDecision::Granted { now, good_until } = decided {
        let grant = RememberedGrant { permit, granted_at: now, at: now, good_until, would_deny: 0 };
        let asked = with_subject(Fingerprint::of_text(policy.key().hash()), policy, subject, cost).finish();
        let remembered_until = remember(account, call, asked, grant, now);
        account.expires = account.expires.max(remembered_until);
    }
    Some((decided, over))
}

/// Returns until when it is remembered.
fn remember(
    account: &mut Account,
    call: &CallId,
    asked: u64,
    grant: RememberedGrant,
    now: Timestamp,
) -> Timestamp {
    let expires = now.plus(CALL_ID_REMEMBERED);
    account.extra_mut().calls.remember(RememberedCall { id: call.clone(), asked, grant, expires }, now);
    expires
}

/// Whether a permit still holds every slot it was granted; true for policies without slots.
fn holds_all_slots(charges: &[Charge], accounts: &[Account], permit: PermitId, now: Timestamp) -> bool {
    charges.iter().zip(accounts).filter(|(charge, _)| !charge.policy.shadow()).all(|(charge, account)| {
        let mut meters = charge.policy.limits().iter().zip(&*account.meters);
        meters.all(|(limit, meter)| !limit.has_slots() || limit.holds_slot(meter, permit, now))
    })
}

fn repeat(
    grant: RememberedGrant,
    charges: &[Charge],
    accounts: &[Account],
    terms: &Terms,
    now: Timestamp,
) -> Decision {
    let RememberedGrant { permit, granted_at, at, good_until, would_deny } = grant;
    let outcome = TakeOutcome::Granted(Booking { permit, granted_at, at, good_until });
    let mut decision = Decision { repeated: true, would_deny, ..Decision::new(now, outcome) };
    if terms.readings {
        decision.charges = read_all(charges, accounts, now);
    }
    decision
}

/// Which account remembers a take's id: the same one for every order of the charges.
pub(crate) fn first_in_key_order(charges: &[Charge]) -> usize {
    let keys =
        charges.iter().enumerate().map(|(index, charge)| ((charge.policy.name(), &charge.subject), index));
    keys.min().map_or(0, |(_, index)| index)
}

/// A hash of the charges, the same for every order of them.
fn fingerprint(charges: &[Charge]) -> u64 {
    let mut in_key_order: SmallVec<[&Charge; 4]> = charges.iter().collect();
    in_key_order.sort_unstable_by_key(|charge| (charge.policy.name(), &charge.subject));
    let add = |print: Fingerprint, charge: &&Charge| {
        with_charge(print, &charge.policy, charge.subject.as_str(), charge.cost())
    };
    in_key_order.iter().fold(Fingerprint::new(), add).finish()
}

fn with_charge(print: Fingerprint, policy: &Policy, subject: &str, cost: &Cost) -> Fingerprint {
    with_subject(print.text(policy.name().as_str()), policy, subject, cost)
}

fn with_subject(print: Fingerprint, policy: &Policy, subject: &str, cost: &Cost) -> Fingerprint {
    let print = print.text(subject);
    let amounts = policy.amounts(cost);
    amounts.fold(print, |print, (limit, amount)| print.number(limit.identity().into()).number(amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Operation, Outcome, Span, Subject, apply};
    use proptest::prelude::*;
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    proptest! {
        /// Where the fast path decides, the slow path decides the same and leaves the same account.
        #[test]
        fn fast_path_agrees_with_the_slow_path(
            limit in proptest::sample::select(vec!["7 / minute", "9 / minute bucket", "5 / 90 seconds sliding"]),
            steps in proptest::collection::vec((0..200u64, 0..12u32), 1..60),
        ) {
            let policy = Arc::new(Policy::new("api", [limit, "40 / hour"]).unwrap());
            let charge = Charge::new(Arc::clone(&policy), Subject::new("ann").unwrap());
            let (mut fast, mut slow) = (Account::new(&policy), Account::new(&policy));
            let mut now = NOW;
            for (number, (seconds, id)) in steps.into_iter().enumerate() {
                now = now.plus(Span::from_secs(seconds));
                let (permit, call) = (PermitId(number as u128), CallId::new(&id.to_string()).unwrap());
                let terms = Terms { call: Some(call.clone()), ..Terms::now(permit) };
                let operation = Operation::one(charge.clone(), Action::Take(terms));
                let wanted = apply(&operation, std::slice::from_mut(&mut slow), now);
                let known = fast.extra.as_ref().is_some_and(|extra| extra.calls.find(&call, now).is_some());
                let fast_charge = FastCharge { policy: &policy, subject: "ann", cost: charge.cost() };
                match decide_fast_once(fast_charge, &mut fast, &call, permit, now) {
                    Some((decided, over)) => {
                        prop_assert!(!known && !over);
                        prop_assert_eq!(Outcome::Decided(decided.in_full(permit)), wanted.outcome);
                    }
                    None => {
                        prop_assert!(known, "the fast path decides every take with a new id");
                        prop_assert_eq!(apply(&operation, std::slice::from_mut(&mut fast), now), wanted);
                    }
                }
                prop_assert_eq!(&fast.meters, &slow.meters);
                prop_assert_eq!(&fast.extra, &slow.extra);
                prop_assert!(fast.expires >= slow.expires);
            }
        }
    }
}
