//! Asking a store in the layout `consumers` about one subject, for its tests.
#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollway_core::{
    Action, Booking, CallId, Charge, Decision, Denial, Operation, Outcome, PermitId, Policy, Settled, Span,
    Store, StoreError, Subject, Terms,
};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisServer;
use tollway_testkit::wait_for;

pub(crate) const SIX: [&str; 6] = [
    "10 / second from first call",
    "100 / minute from first call",
    "1000 / hour from first call",
    "10000 / day from first call",
    "50000 / week from first call",
    "200000 / month from first call",
];

static PERMITS: AtomicU64 = AtomicU64::new(1);

pub(crate) fn open(server: &RedisServer) -> RedisStore {
    RedisStore::open(&format!("{}/0?layout=consumers&deadline=20s", server.url())).unwrap()
}

pub(crate) fn policy(limits: &[&str]) -> Policy {
    Policy::new("consumers", limits.iter().copied()).unwrap()
}

pub(crate) fn minute(amount: u64) -> Policy {
    policy(&[&format!("{amount} / minute from first call")])
}

/// An operation on one subject under one policy.
pub(crate) struct Asked<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) charge: Charge,
}

pub(crate) fn of<'a>(store: &'a dyn Store, policy: &Policy, subject: &str) -> Asked<'a> {
    Asked { store, charge: charge(policy, subject) }
}

pub(crate) fn charge(policy: &Policy, subject: &str) -> Charge {
    Charge::new(Arc::new(policy.clone()), Subject::new(subject).unwrap())
}

impl Asked<'_> {
    pub(crate) fn costing(mut self, requests: u64) -> Self {
        self.charge.cost = Some(self.charge.policy.cost([("requests", requests)]).unwrap());
        self
    }

    pub(crate) fn apply(&self, action: Action) -> Result<Outcome, StoreError> {
        let answer = self.store.apply(&[Operation::one(self.charge.clone(), action)]);
        wait_for(answer).map(|mut outcomes| outcomes.remove(0))
    }

    pub(crate) fn decide(&self, call: Option<&str>) -> Decision {
        let call = call.map(|id| CallId::new(id).unwrap());
        match self.apply(Action::Take(terms(call))).unwrap() {
            Outcome::Decided(decision) => decision,
            other => panic!("a take is answered with {other:?}"),
        }
    }

    /// A take that is granted.
    pub(crate) fn take(&self) -> Decision {
        let decision = self.decide(None);
        assert!(decision.is_granted(), "{decision:?}");
        decision
    }

    pub(crate) fn denied(&self) -> Denial {
        let decision = self.decide(None);
        *decision.denial().unwrap_or_else(|| panic!("{decision:?}"))
    }

    /// What is left of the first limit after one more take.
    pub(crate) fn remaining(&self) -> u64 {
        self.take().charges[0].readings[0].remaining
    }

    pub(crate) fn used(&self) -> Vec<u64> {
        match self.apply(Action::Peek).unwrap() {
            Outcome::Peeked(charges) => charges[0].readings.iter().map(|reading| reading.used).collect(),
            other => panic!("a peek is answered with {other:?}"),
        }
    }

    pub(crate) fn give_back(&self, booking: Booking, remember: bool) -> Settled {
        settled(self.apply(Action::Return { booking, remember }))
    }

    pub(crate) fn settle(&self, booking: Booking, requests: u64) -> Settled {
        let actual = [self.charge.policy.cost([("requests", requests)]).unwrap()].into();
        settled(self.apply(Action::Settle { booking, actual, remember: false }))
    }
}

fn settled(outcome: Result<Outcome, StoreError>) -> Settled {
    match outcome.unwrap() {
        Outcome::Settled(settled) => settled,
        other => panic!("a correction is answered with {other:?}"),
    }
}

pub(crate) fn terms(call: Option<CallId>) -> Terms {
    let permit = PermitId(PERMITS.fetch_add(1, Ordering::Relaxed).into());
    // However long it could wait: this layout has no queue.
    Terms {
        permit,
        max_wait: Span::from_hours(1),
        call,
        readings: true,
        new_accounts: tollway_core::NewAccounts::Make,
    }
}

pub(crate) fn number(server: &RedisServer, words: &[&str]) -> i64 {
    server.command(words).parse().unwrap()
}

/// Waits until the key is gone.
pub(crate) fn outlive(server: &RedisServer, key: &str) {
    while server.command(&["EXISTS", key]) == "1" {
        std::thread::sleep(Duration::from_millis(5));
    }
}
