//! Asking a store in the layout `consumers` about one subject, for its tests.
#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollway_core::{
    Booking, CallId, Cost, Decision, Denial, Grant, Operation, Outcome, Party, PermitId, Policy, Settled,
    Span, Store, StoreError, Subject, Terms, Verb,
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

/// Something asked of one subject under one policy.
pub(crate) struct Asked<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) policy: &'a Policy,
    pub(crate) subject: Subject,
    pub(crate) cost: Cost,
}

pub(crate) fn of<'a>(store: &'a dyn Store, policy: &'a Policy, subject: &str) -> Asked<'a> {
    Asked { store, policy, subject: Subject::new(subject).unwrap(), cost: policy.default_cost().clone() }
}

impl Asked<'_> {
    pub(crate) fn costing(mut self, requests: u64) -> Self {
        self.cost = self.policy.cost([("requests", requests)]).unwrap();
        self
    }

    pub(crate) fn apply(&self, verb: Verb<'_>) -> Result<Outcome, StoreError> {
        let party = Party { policy: self.policy, subject: &self.subject, cost: &self.cost };
        let answer = self.store.apply(&[Operation { parties: &[party], verb }]);
        wait_for(answer).map(|mut outcomes| outcomes.remove(0))
    }

    pub(crate) fn decide(&self, call: Option<&str>) -> Decision {
        let call = call.map(|id| CallId::new(id).unwrap());
        match self.apply(Verb::Take(terms(call.as_ref()))).unwrap() {
            Outcome::Decided(decision) => decision,
            other => panic!("a take is answered with {other:?}"),
        }
    }

    pub(crate) fn take(&self) -> Grant {
        match self.decide(None) {
            Decision::Granted(grant) => grant,
            Decision::Denied(denial) => panic!("{denial:?}"),
        }
    }

    pub(crate) fn denied(&self) -> Denial {
        match self.decide(None) {
            Decision::Denied(denial) => denial,
            Decision::Granted(grant) => panic!("{grant:?}"),
        }
    }

    /// What is left of the first limit after one more take.
    pub(crate) fn remaining(&self) -> u64 {
        self.take().readings[0].remaining
    }

    pub(crate) fn used(&self) -> Vec<u64> {
        match self.apply(Verb::Peek).unwrap() {
            Outcome::Peeked(readings) => readings.iter().map(|reading| reading.used).collect(),
            other => panic!("a peek is answered with {other:?}"),
        }
    }

    pub(crate) fn give_back(&self, booking: Booking, remember: bool) -> Settled {
        settled(self.apply(Verb::Return { booking, remember }))
    }

    pub(crate) fn settle(&self, booking: Booking, requests: u64) -> Settled {
        let actual = self.policy.cost([("requests", requests)]).unwrap();
        settled(self.apply(Verb::Settle { booking, actual: &[actual], remember: false }))
    }
}

fn settled(outcome: Result<Outcome, StoreError>) -> Settled {
    match outcome.unwrap() {
        Outcome::Settled(settled) => settled,
        other => panic!("a correction is answered with {other:?}"),
    }
}

pub(crate) fn terms(call: Option<&CallId>) -> Terms<'_> {
    let permit = PermitId(PERMITS.fetch_add(1, Ordering::Relaxed).into());
    // However long it could wait: nobody stands in line here.
    Terms { permit, max_wait: Span::from_hours(1), call, readings: true }
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
