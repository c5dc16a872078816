//! What tests of the store share: a server, schemas of their own, and short words for takes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod lossy;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{
    Clock, Cost, Decision, Grant, Operation, Outcome, OwnedOperation, OwnedParty, OwnedTerms, OwnedVerb,
    Party, PermitId, Policy, Reading, Span, Store, StoreError, Subject, Terms, Verb,
};
use tollway_postgres::PostgresStore;
use tollway_testkit::servers::PostgresServer;
use tollway_testkit::wait_for;

static COUNT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn server() -> &'static PostgresServer {
    PostgresServer::shared()
}

/// A schema that nobody else has.
pub(crate) fn fresh_schema() -> String {
    format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

/// Busy machines are slow; no test is about how fast an answer comes.
pub(crate) fn url(schema: &str) -> String {
    format!("{}?schema={schema}&deadline=20s", server().url())
}

pub(crate) fn store(schema: &str) -> PostgresStore {
    PostgresStore::connect(&url(schema)).unwrap()
}

pub(crate) fn store_with_clock(schema: &str, clock: Arc<dyn Clock>) -> PostgresStore {
    PostgresStore::with_clock(&url(schema), clock).unwrap()
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
pub(crate) fn take_operation(policy: &Policy, subject: &Subject) -> OwnedOperation {
    let cost: Cost = policy.default_cost().clone();
    let party = OwnedParty { policy: policy.clone(), subject: subject.clone(), cost };
    let (permit, max_wait) = (fresh_permit(), Span::ZERO);
    let terms = OwnedTerms { permit, max_wait, call: None, readings: false };
    OwnedOperation { parties: vec![party], verb: OwnedVerb::Take(terms) }
}

/// Takes under all of these policies; the grant, if it was granted.
pub(crate) fn take(
    store: &dyn Store,
    policies: &[&Policy],
    subject: &Subject,
) -> Result<Option<Grant>, StoreError> {
    let party = |policy: &&'_ Policy| OwnedParty {
        policy: (*policy).clone(),
        subject: subject.clone(),
        cost: policy.default_cost().clone(),
    };
    let parties: Vec<OwnedParty> = policies.iter().map(party).collect();
    let lent: Vec<Party<'_>> = parties
        .iter()
        .map(|party| Party { policy: &party.policy, subject: &party.subject, cost: &party.cost })
        .collect();
    let terms = Terms { permit: fresh_permit(), max_wait: Span::ZERO, call: None, readings: false };
    let outcomes = wait_for(store.apply(&[Operation { parties: &lent, verb: Verb::Take(terms) }]))?;
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

/// How many rows a table has.
pub(crate) fn rows(schema: &str, table: &str) -> usize {
    server().query(&format!("SELECT count(*) FROM {schema}.{table}")).parse().unwrap()
}
