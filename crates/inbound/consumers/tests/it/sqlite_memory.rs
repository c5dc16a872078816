//! Records in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support;
use crate::support::{consumer, soon};
use tollway_consumers::{PAGE_MAX, Records, SqliteRecords};

fn open() -> ((), SqliteRecords) {
    ((), SqliteRecords::open("sqlite::memory:").unwrap())
}

support::scenarios::holds_for!(open());

#[test]
fn memory_databases_are_independent() {
    let ((), one) = open();
    let ((), other) = open();
    soon(one.set_blocked(&consumer("c"), true)).unwrap();
    assert!(!soon(other.consumer(&consumer("c"))).unwrap().is_known());
}

#[test]
fn pages_are_bounded_whatever_the_limit() {
    let ((), records) = open();
    for number in 0..=PAGE_MAX {
        soon(records.set_blocked(&consumer(&format!("{number:05}")), true)).unwrap();
    }
    let page = soon(records.consumers(None, usize::MAX)).unwrap();
    assert_eq!(page.len(), PAGE_MAX);
    assert_eq!(soon(records.consumers(page.last(), usize::MAX)).unwrap().len(), 1);
}
