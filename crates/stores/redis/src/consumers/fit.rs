//! What fits the keys: requests of a subject, in windows from the first call, of six lengths. Anything else is refused
//! before it is combined with what others ask, so that it cannot fail theirs.

use tollway_core::{Action, Charge, Limit, Operation, Period, Policy, REQUESTS, StoreError, Subject};

use super::period::{JOINT, key};
use crate::error::wrong;

/// Whether every limit of the operation has a key of its own, and every subject can be part of one.
pub(crate) fn check(operation: &Operation) -> Result<(), StoreError> {
    if matches!(operation.action, Action::Feedback(_)) {
        return Err(wrong("the layout consumers keeps nothing of what a vendor says".to_owned()));
    }
    let mut seen: Vec<(&Charge, Period)> = Vec::new();
    for charge in &operation.charges {
        check_subject(&charge.subject)?;
        check_policy(&charge.policy)?;
        for (limit, period) in charge.policy.limits().iter().zip(periods(&charge.policy)?) {
            let same = |known: &&(&Charge, Period)| known.0.subject == charge.subject && known.1 == period;
            // One policy twice for one subject is refused by all stores alike.
            if let Some((other, _)) = seen.iter().find(same)
                && (std::ptr::eq(*other, charge) || other.policy.name() != charge.policy.name())
            {
                let key = key(period, &charge.subject);
                let why = format!("{key:?} is counted by a limit of policy {} already", other.policy.name());
                return Err(unfit(&charge.policy, limit, &why));
            }
            seen.push((charge, period));
        }
    }
    Ok(())
}

/// The period of each limit, in the policy's order.
pub(crate) fn periods(policy: &Policy) -> Result<Vec<Period>, StoreError> {
    policy.limits().iter().map(|limit| period(limit).map_err(|why| unfit(policy, limit, &why))).collect()
}

fn period(limit: &Limit) -> Result<Period, String> {
    let from_first_call = limit.is_window() && limit.calendar().is_none();
    let span = limit.period().filter(|_| from_first_call);
    let span = span.ok_or("its window does not begin with the first call; write `from first call`")?;
    if limit.unit().as_str() != REQUESTS {
        return Err(format!("it counts {}, and the keys count {REQUESTS}", limit.unit()));
    }
    Period::of(span).ok_or_else(|| {
        format!("there are keys for a second, minute, hour, day, week and month (30 days), not for {span}")
    })
}

fn check_policy(policy: &Policy) -> Result<(), StoreError> {
    let refused = |what: &str| Err(wrong(format!("policy {} {what} in the layout consumers", policy.name())));
    if policy.shadow() {
        return refused("cannot be a shadow, for it has no counters of its own");
    }
    if policy.leases() {
        return refused("cannot have leases, for others would read what nobody has used");
    }
    Ok(())
}

fn check_subject(subject: &Subject) -> Result<(), StoreError> {
    let subject = subject.as_str();
    if subject.is_empty() {
        return Err(wrong(
            "the layout consumers needs a subject: it is the first part of the key".to_owned(),
        ));
    }
    if subject.contains(JOINT) {
        let message = format!("the subject {subject:?} contains {JOINT:?}, so its keys could be misread");
        return Err(wrong(message));
    }
    Ok(())
}

fn unfit(policy: &Policy, limit: &Limit, why: &str) -> StoreError {
    let (policy, name) = (policy.name(), limit.name());
    wrong(format!("policy {policy}: the limit {name} ({limit}) does not fit the layout consumers: {why}"))
}
