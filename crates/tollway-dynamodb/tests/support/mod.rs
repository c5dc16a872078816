//! What tests of the store share: a server, tables of their own, and short words for takes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "no test uses all of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{
    Clock, Cost, Decision, Grant, Operation, Outcome, OwnedOperation, OwnedParty, OwnedTerms, OwnedVerb,
    Party, PermitId, Policy, Reading, Span, Store, StoreError, Subject, Terms, Verb,
};
use tollway_dynamodb::DynamoStore;
use tollway_testkit::servers::DynamoServer;
use tollway_testkit::wait_for;

static COUNT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn server() -> &'static DynamoServer {
    DynamoServer::shared()
}

/// A table that nobody else has.
pub(crate) fn fresh_table() -> String {
    format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

/// Busy machines are slow; no test is about how fast an answer comes.
pub(crate) fn url(table: &str) -> String {
    url_through(server().addr(), table)
}

pub(crate) fn url_through(proxy: SocketAddr, table: &str) -> String {
    format!("{}&deadline=20s", DynamoServer::url_through(proxy, table))
}

pub(crate) fn store(table: &str) -> DynamoStore {
    DynamoStore::connect(&url(table)).unwrap()
}

pub(crate) fn store_with_clock(table: &str, clock: Arc<dyn Clock>) -> DynamoStore {
    DynamoStore::with_clock(&url(table), clock).unwrap()
}

pub(crate) fn policy(limit: &str) -> Policy {
    Policy::new("p", [limit]).unwrap()
}

pub(crate) fn subject(name: &str) -> Subject {
    Subject::new(name).unwrap()
}

pub(crate) fn fresh_permit() -> PermitId {
    PermitId(u128::from(std::process::id()) << 64 | u128::from(COUNT.fetch_add(1, Ordering::SeqCst)))
}

/// A take of one request that does not wait.
pub(crate) fn take_operation(policies: &[&Policy], subject: &Subject) -> OwnedOperation {
    let party = |policy: &&Policy| {
        let cost: Cost = policy.default_cost().clone();
        OwnedParty { policy: (*policy).clone(), subject: subject.clone(), cost }
    };
    let terms = OwnedTerms { permit: fresh_permit(), max_wait: Span::ZERO, call: None, readings: false };
    OwnedOperation { parties: policies.iter().map(party).collect(), verb: OwnedVerb::Take(terms) }
}

/// Takes under all of these policies; the grant, if it was granted.
pub(crate) fn take(
    store: &dyn Store,
    policies: &[&Policy],
    subject: &Subject,
) -> Result<Option<Grant>, StoreError> {
    let parties: Vec<Party<'_>> =
        policies.iter().map(|&policy| Party { policy, subject, cost: policy.default_cost() }).collect();
    let terms = Terms { permit: fresh_permit(), max_wait: Span::ZERO, call: None, readings: false };
    let outcomes = wait_for(store.apply(&[Operation { parties: &parties, verb: Verb::Take(terms) }]))?;
    match outcomes.into_iter().next() {
        Some(Outcome::Decided(Decision::Granted(grant))) => Ok(Some(grant)),
        Some(Outcome::Decided(Decision::Denied(_))) => Ok(None),
        other => panic!("a take is answered with {other:?}"),
    }
}

pub(crate) fn try_take(store: &dyn Store, policy: &Policy, subject: &Subject) -> bool {
    take(store, &[policy], subject).unwrap().is_some()
}

pub(crate) fn readings(store: &dyn Store, policy: &Policy, subject: &Subject) -> Vec<Reading> {
    let party = Party { policy, subject, cost: policy.default_cost() };
    let outcomes = wait_for(store.apply(&[Operation { parties: &[party], verb: Verb::Peek }])).unwrap();
    match outcomes.into_iter().next() {
        Some(Outcome::Peeked(readings)) => readings,
        other => panic!("a peek is answered with {other:?}"),
    }
}

pub(crate) fn used(store: &dyn Store, policy: &Policy, subject: &Subject) -> u64 {
    readings(store, policy, subject)[0].used
}

pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

/// A number of an item.
pub(crate) fn number(item: &serde_json::Value, name: &str) -> u64 {
    item[name]["N"].as_str().unwrap().parse().unwrap()
}
