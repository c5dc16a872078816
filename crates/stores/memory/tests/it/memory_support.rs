//! Helpers for the tests of the memory store: a store with a manual clock, and takes of one request.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{
    Action, Booking, Charge, Operation, Outcome, PermitId, Policy, Reading, Store, Subject, Terms, Timestamp,
};
use tollway_memory::MemoryStore;
use tollway_testkit::{ManualClock, wait_for};

/// The start of an hour, so that no window ends unless the test advances the clock.
pub(crate) const START: Timestamp = Timestamp::from_secs(500_000 * 3_600);

pub(crate) fn store_of(accounts: usize) -> (MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    (MemoryStore::with_capacity(accounts, clock.clone()), clock)
}

pub(crate) fn policy(name: &str, limit: &str) -> Policy {
    Policy::new(name, [limit]).unwrap()
}

pub(crate) fn subject(text: &str) -> Subject {
    Subject::new(text).unwrap()
}

pub(crate) fn charge(policy: &Policy, subject: &Subject) -> Charge {
    Charge::new(Arc::new(policy.clone()), subject.clone())
}

pub(crate) fn apply(store: &MemoryStore, charges: &[Charge], action: Action) -> Outcome {
    wait_for(store.apply(&[Operation { charges: charges.into(), action }])).unwrap().remove(0)
}

/// Takes one request of every charge, without a wait.
pub(crate) fn take_all(store: &MemoryStore, charges: &[Charge]) -> Option<Booking> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let permit = PermitId(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)));
    match apply(store, charges, Action::Take(Terms::now(permit))) {
        Outcome::Decided(decision) => decision.booking().copied(),
        other => panic!("a take is answered with {other:?}"),
    }
}

pub(crate) fn take(store: &MemoryStore, policy: &Policy, subject: &Subject) -> bool {
    take_all(store, &[charge(policy, subject)]).is_some()
}

pub(crate) fn peek(store: &MemoryStore, policy: &Policy, subject: &Subject) -> Reading {
    match apply(store, &[charge(policy, subject)], Action::Peek) {
        Outcome::Peeked(charges) => charges[0].readings[0],
        other => panic!("a peek is answered with {other:?}"),
    }
}

/// Resident bytes of this process. A test that compares them needs its own process: other tests reuse freed memory.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// A subject of the flood, at most 24 bytes: the documented bound holds for those.
pub(crate) fn stranger(number: usize) -> Subject {
    subject(&format!("stranger-{number}"))
}
