//! An exhausted account costs a call a second and process, not one for each take.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "how many calls are allowed depends on how long it really took"
)]

use std::thread;
use std::time::Instant;

use tollway_core::{Action, Charge, Operation, Store};
use tollway_postgres::PostgresStore;
use tollway_testkit::servers::PostgresServer;
use tollway_testkit::wait_for;

use crate::support::{fresh_schema, policy, store, subject, take, try_take, url};

const PROCESSES: usize = 4;
const TAKES: usize = 2_000;

/// What a call locks.
const CALL: &str = "pg_advisory_xact_lock(lock)";

/// At most 5 calls a second and process. The first denials of concurrent takes may each be a call.
fn calls_allowed(begun: Instant) -> usize {
    PROCESSES * 5 * (begun.elapsed().as_secs() as usize + 1)
}

#[test]
fn denials_cost_few_calls() {
    let server = PostgresServer::start_with(&["log_statement=all"]);
    let url = format!("{}?schema={}&deadline=20s", server.url(), fresh_schema());
    let stores = [(); PROCESSES].map(|()| PostgresStore::connect(&url).unwrap());
    let policy = policy("1 request / day");
    assert!(try_take(&stores[0], &policy, &subject("s")));
    let calls = || server.log().matches(CALL).count();
    let (before, begun) = (calls(), Instant::now());
    thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| {
                (0..TAKES / PROCESSES).for_each(|_| assert!(!try_take(store, &policy, &subject("s"))))
            });
        }
    });
    let allowed = calls_allowed(begun);
    let calls = calls() - before;
    assert!((PROCESSES..=allowed).contains(&calls), "{calls} calls, {allowed} are allowed");
}

/// Another process's are seen within a second.
#[test]
fn units_given_back_by_this_process_are_seen_at_once() {
    let schema = fresh_schema();
    let (one, other) = (store(&schema), store(&schema));
    let policy = policy("1 request / day");
    let booking = take(&one, &[&policy], &subject("s")).unwrap().unwrap();
    assert!(!try_take(&one, &policy, &subject("s")) && !try_take(&other, &policy, &subject("s")));
    let charge = Charge::new(policy.clone().into(), subject("s"));
    let give_back = Operation::one(charge.clone(), Action::Return { booking, remember: false });
    wait_for(one.apply(&[give_back])).unwrap();
    assert!(try_take(&one, &policy, &subject("s")));
    assert!(!try_take(&one, &policy, &subject("s")));
    wait_for(one.apply(&[Operation::one(charge, Action::Reset)])).unwrap();
    let mut seen = std::iter::repeat_with(|| try_take(&other, &policy, &subject("s"))).take(10_000_000);
    assert!(seen.any(|granted| granted));
}

#[test]
fn denials_can_each_be_a_call() {
    let schema = fresh_schema();
    let exact = PostgresStore::connect(&format!("{}&denials=0s", url(&schema))).unwrap();
    let other = store(&schema);
    let policy = policy("1 request / day");
    let booking = take(&other, &[&policy], &subject("s")).unwrap().unwrap();
    assert!(!try_take(&exact, &policy, &subject("s")));
    let charge = Charge::new(policy.clone().into(), subject("s"));
    wait_for(other.apply(&[Operation::one(charge, Action::Return { booking, remember: false })])).unwrap();
    assert!(try_take(&exact, &policy, &subject("s")));
}
