//! An exhausted account costs a call a second and process, not one for each take.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "how many calls are allowed depends on how long it really took"
)]

use std::thread;
use std::time::Instant;

use tollway_core::{Action, Charge, Operation, Store};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisServer;
use tollway_testkit::takes::{fresh_name, policy, subject, take, try_take};
use tollway_testkit::wait_for;

const PROCESSES: usize = 4;
const TAKES: usize = 2_000;

/// A store whose keys no other test has.
fn store(prefix: &str, more: &str) -> RedisStore {
    let url = format!("{}?prefix={prefix}:&deadline=20s{more}", RedisServer::shared().url());
    RedisStore::open(&url).unwrap()
}

/// How often a server ran a script.
fn calls(server: &RedisServer) -> usize {
    let scripts = ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="];
    let stats = server.command(&["INFO", "commandstats"]);
    let count = |line: &str| {
        let counts = scripts.iter().find_map(|script| line.strip_prefix(script))?;
        counts.split(',').next()?.parse::<usize>().ok()
    };
    stats.lines().filter_map(count).sum()
}

/// At most 5 calls a second and process.
fn calls_allowed(begun: Instant) -> usize {
    PROCESSES * 5 * (begun.elapsed().as_secs() as usize + 1)
}

#[test]
fn denials_cost_few_calls() {
    let server = RedisServer::start();
    let url = format!("{}?deadline=20s", server.url());
    let stores = [(); PROCESSES].map(|()| RedisStore::open(&url).unwrap());
    let policy = policy("1 request / day");
    assert!(try_take(&stores[0], &policy, &subject("s")));
    let (before, begun) = (calls(&server), Instant::now());
    thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| {
                (0..TAKES / PROCESSES).for_each(|_| assert!(!try_take(store, &policy, &subject("s"))))
            });
        }
    });
    let allowed = calls_allowed(begun);
    let calls = calls(&server) - before;
    assert!((PROCESSES..=allowed).contains(&calls), "{calls} calls, {allowed} are allowed");
}

/// Another process's are seen within a second.
#[test]
fn units_given_back_by_this_process_are_seen_at_once() {
    let prefix = fresh_name();
    let (one, other) = (store(&prefix, ""), store(&prefix, ""));
    let policy = policy("1 request / day");
    let booking = take(&one, &[&policy], &subject("s")).unwrap().unwrap();
    assert!(!try_take(&one, &policy, &subject("s")) && !try_take(&other, &policy, &subject("s")));
    let charge = Charge::new(policy.clone().into(), subject("s"));
    let give_back = Action::Return { booking, remember: false };
    wait_for(one.apply(&[Operation::one(charge.clone(), give_back)])).unwrap();
    assert!(try_take(&one, &policy, &subject("s")) && !try_take(&one, &policy, &subject("s")));
    wait_for(one.apply(&[Operation::one(charge, Action::Reset)])).unwrap();
    let mut seen = std::iter::repeat_with(|| try_take(&other, &policy, &subject("s"))).take(10_000_000);
    assert!(seen.any(|granted| granted));
}

#[test]
fn denials_can_each_be_a_call() {
    let prefix = fresh_name();
    let (exact, other) = (store(&prefix, "&denials=0s"), store(&prefix, ""));
    let policy = policy("1 request / day");
    let booking = take(&other, &[&policy], &subject("s")).unwrap().unwrap();
    assert!(!try_take(&exact, &policy, &subject("s")));
    let charge = Charge::new(policy.clone().into(), subject("s"));
    wait_for(other.apply(&[Operation::one(charge, Action::Return { booking, remember: false })])).unwrap();
    assert!(try_take(&exact, &policy, &subject("s")));
}
