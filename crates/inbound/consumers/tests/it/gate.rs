//! The gate while records cannot be read, and when the config changes: it uses the last known limits, and removes no counter
//! that other servers need.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::support::counted::Counted;
use crate::support::{consumer, draft, soon};
use tollway::Limiter;
use tollway::core::{Period, WhenStoreFails};
use tollway_consumers::{Admission, ConsumersConfig, Gate, GateError, Records, SqliteRecords, read_date};
use tollway_testkit::ManualClock;

fn limiter() -> Limiter {
    let clock = Arc::new(ManualClock::at(read_date("2026-06-01T12:00:00Z").unwrap().timestamp()));
    Limiter::builder().clock(clock).build()
}

fn config(per_minute: i64) -> ConsumersConfig {
    let defaults = [-1, per_minute, -1, -1, -1, -1];
    ConsumersConfig { defaults, when_store_fails: WhenStoreFails::Local, ..ConsumersConfig::default() }
}

fn call(gate: &Gate, name: &str) {
    match soon(gate.admission(&consumer(name))).unwrap() {
        Admission::Counted(handle) => {
            assert!(handle.try_take().subject(name).now().unwrap().is_granted());
        }
        Admission::Free => {}
        Admission::Blocked => panic!("{name} is blocked"),
    }
}

/// The usage of a consumer, read by a gate that can read its limits.
fn counted(gate: &Gate, name: &str) -> Vec<(Period, u64)> {
    let limits = soon(gate.active(&consumer(name))).unwrap().limits;
    let counters = soon(gate.counters(&consumer(name), limits)).unwrap();
    counters.into_iter().map(|counter| (counter.period, counter.calls_made)).collect()
}

/// Two servers; the second can no longer read the records.
struct Servers {
    records: Arc<SqliteRecords>,
    reads: Gate,
    cut_off: Arc<Counted>,
    does_not: Gate,
}

impl Servers {
    fn new(per_minute: i64) -> Self {
        let (limiter, records) = (limiter(), Arc::new(SqliteRecords::open("sqlite::memory:").unwrap()));
        let reads = Gate::new(limiter.clone(), Arc::clone(&records) as Arc<dyn Records>, &config(per_minute))
            .unwrap();
        let cut_off = Counted::over(Arc::clone(&records), None);
        let does_not =
            Gate::new(limiter, Arc::clone(&cut_off) as Arc<dyn Records>, &config(per_minute)).unwrap();
        Self { records, reads, cut_off, does_not }
    }
}

/// C3, C7: a server that does not know a consumer applies the defaults, and removes no counter outside them: other servers
/// enforce it.
#[test]
fn unreadable_records_reset_no_counter() {
    let servers = Servers::new(60);
    soon(servers.records.create(draft("c", 7))).unwrap();
    servers.cut_off.cut_off(true);
    call(&servers.reads, "c");
    call(&servers.does_not, "c");
    assert_eq!(counted(&servers.reads, "c"), [(Period::Minute, 2), (Period::Month, 1)]);
}

/// C3, C7: nor does a server whose last known state has no limits.
#[test]
fn stale_unlimited_records_reset_no_counter() {
    let servers = Servers::new(-1);
    call(&servers.does_not, "c");
    servers.cut_off.cut_off(true);
    soon(servers.records.create(draft("c", 7))).unwrap();
    call(&servers.reads, "c");
    call(&servers.does_not, "c");
    assert_eq!(counted(&servers.reads, "c"), [(Period::Minute, 1), (Period::Month, 1)]);
}

/// C7: the last known limits stay in force when the config changes while records cannot be read.
#[test]
fn a_changed_config_keeps_the_cache() {
    let servers = Servers::new(60);
    soon(servers.records.create(draft("limited", 7))).unwrap();
    soon(servers.records.set_blocked(&consumer("blocked"), true)).unwrap();
    for name in ["limited", "blocked"] {
        drop(soon(servers.does_not.admission(&consumer(name))));
    }
    servers.cut_off.cut_off(true);
    for per_minute in [60, 50] {
        let open = ConsumersConfig { when_store_fails: WhenStoreFails::Open, ..config(per_minute) };
        let gate = servers.does_not.under(&open).unwrap();
        let admission = |name: &str| soon(gate.admission(&consumer(name))).unwrap();
        assert!(matches!(admission("blocked"), Admission::Blocked), "{per_minute}");
        let Admission::Counted(handle) = admission("limited") else { panic!("{per_minute}") };
        assert_eq!(handle.policy().limits()[0].amount(), 7, "{per_minute}");
        assert!(matches!(admission("stranger"), Admission::Free), "{per_minute}");
    }
    servers.cut_off.cut_off(false);
    let gate = servers.does_not.under(&config(50)).unwrap();
    let minute = |name: &str| soon(gate.active(&consumer(name))).unwrap().limits.of(Period::Minute);
    assert_eq!(minute("stranger").map(|amount| amount.get()), Some(50), "the new defaults are in force");
}

/// A limiter with a policy of the consumers' name would mix both usages, so the gate refuses it.
#[test]
fn a_limiter_with_a_policy_of_the_same_name_is_refused() {
    let limiter = Limiter::builder().policy("consumers", ["1 / minute"]).unwrap().build();
    let records = Arc::new(SqliteRecords::open("sqlite::memory:").unwrap());
    let error = Gate::new(limiter, records, &config(60)).err().unwrap();
    assert!(matches!(error, GateError::Policy(_)), "{error}");
}
