//! What the tests of the memory store share: a store with a clock in the test's hand, and takes of one request.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{
    Booking, Decision, Grant, Operation, Outcome, Party, PermitId, Policy, Reading, Span, Store, Subject,
    Terms, Timestamp, Verb,
};
use tollway_memory::MemoryStore;
use tollway_testkit::{ManualClock, wait_for};

/// The first second of an hour, so that no minute ends while a test runs unless it says so.
pub(crate) const START: Timestamp = Timestamp::from_secs(500_000 * 3_600);

pub(crate) fn store_of(lines: usize) -> (MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    (MemoryStore::with_capacity(lines, clock.clone()), clock)
}

pub(crate) fn policy(name: &str, limit: &str) -> Policy {
    Policy::new(name, [limit]).unwrap()
}

pub(crate) fn subject(text: &str) -> Subject {
    Subject::new(text).unwrap()
}

pub(crate) fn party<'a>(policy: &'a Policy, subject: &'a Subject) -> Party<'a> {
    Party { policy, subject, cost: policy.default_cost() }
}

pub(crate) fn apply(store: &MemoryStore, parties: &[Party<'_>], verb: Verb<'_>) -> Outcome {
    wait_for(store.apply(&[Operation { parties, verb }])).unwrap().remove(0)
}

/// One request of every party, now or not at all.
pub(crate) fn take_all(store: &MemoryStore, parties: &[Party<'_>]) -> Option<Grant> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let permit = PermitId(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)));
    let terms = Terms { permit, max_wait: Span::ZERO, call: None, readings: false };
    match apply(store, parties, Verb::Take(terms)) {
        Outcome::Decided(Decision::Granted(grant)) => Some(grant),
        Outcome::Decided(Decision::Denied(_)) => None,
        other => panic!("a take is answered with {other:?}"),
    }
}

pub(crate) fn take(store: &MemoryStore, policy: &Policy, subject: &Subject) -> bool {
    take_all(store, &[party(policy, subject)]).is_some()
}

pub(crate) fn peek(store: &MemoryStore, policy: &Policy, subject: &Subject) -> Reading {
    match apply(store, &[party(policy, subject)], Verb::Peek) {
        Outcome::Peeked(readings) => readings[0],
        other => panic!("a peek is answered with {other:?}"),
    }
}

pub(crate) fn booking_of(grant: &Grant) -> Booking {
    grant.booking()
}

/// Resident bytes of this process. Whoever compares them has a process to himself: what others gave back is taken again.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// A subject of the flood; 24 bytes at the most, as the bound is stated for.
pub(crate) fn stranger(number: usize) -> Subject {
    subject(&format!("stranger-{number}"))
}
