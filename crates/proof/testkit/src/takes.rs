//! Helpers for tests of a store: takes, readings, and unique names.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{
    Action, Booking, Charge, Operation, Outcome, PermitId, Policy, Reading, Store, StoreError, Subject, Terms,
};

use crate::wait_for;

/// A number unique in this process.
fn fresh_number() -> u64 {
    static USED: AtomicU64 = AtomicU64::new(0);
    USED.fetch_add(1, Ordering::Relaxed) + 1
}

/// A unique name for a table or schema, also among other processes.
pub fn fresh_name() -> String {
    format!("t{}_{}", process::id(), fresh_number())
}

/// A unique permit.
pub fn fresh_permit() -> PermitId {
    PermitId(u128::from(process::id()) << 64 | u128::from(fresh_number()))
}

/// The policy `p` with this one limit.
pub fn policy(limit: &str) -> Policy {
    Policy::new("p", [limit]).unwrap()
}

/// The subject of this name.
pub fn subject(name: &str) -> Subject {
    Subject::new(name).unwrap()
}

/// A take of the default cost under all of these policies, without a wait.
pub fn take_operation(policies: &[&Policy], subject: &Subject) -> Operation {
    let charge = |policy: &&Policy| Charge::new(Arc::new((*policy).clone()), subject.clone());
    let action = Action::Take(Terms::now(fresh_permit()));
    Operation { charges: policies.iter().map(charge).collect(), action }
}

/// Takes under all of these policies. Returns the booking, if it was granted.
pub fn take(
    store: &dyn Store,
    policies: &[&Policy],
    subject: &Subject,
) -> Result<Option<Booking>, StoreError> {
    let answer = store.apply(&[take_operation(policies, subject)]);
    match wait_for(answer)?.into_iter().next() {
        Some(Outcome::Decided(decision)) => Ok(decision.booking().copied()),
        other => panic!("a take is answered with {other:?}"),
    }
}

/// Whether a take is granted; panics if the store fails.
pub fn try_take(store: &dyn Store, policy: &Policy, subject: &Subject) -> bool {
    take(store, &[policy], subject).unwrap().is_some()
}

/// The readings of all limits of an account.
pub fn readings(store: &dyn Store, policy: &Policy, subject: &Subject) -> Vec<Reading> {
    let charge = Charge::new(Arc::new(policy.clone()), subject.clone());
    let outcomes = wait_for(store.apply(&[Operation::one(charge, Action::Peek)])).unwrap();
    match outcomes.into_iter().next() {
        Some(Outcome::Peeked(mut charges)) => charges.remove(0).readings,
        other => panic!("a peek is answered with {other:?}"),
    }
}

/// How much of the first limit is used.
pub fn used(store: &dyn Store, policy: &Policy, subject: &Subject) -> u64 {
    readings(store, policy, subject)[0].used
}
