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
fn each_memory_is_its_own() {
    let ((), one) = open();
    let ((), other) = open();
    soon(one.set_blocked(&consumer("c"), true)).unwrap();
    assert!(!soon(other.consumer(&consumer("c"))).unwrap().is_known());
}

#[test]
fn a_page_has_an_end_whatever_is_asked() {
    let ((), records) = open();
    for number in 0..=PAGE_MAX {
        soon(records.set_blocked(&consumer(&format!("{number:05}")), true)).unwrap();
    }
    let page = soon(records.consumers(None, usize::MAX)).unwrap();
    assert_eq!(page.len(), PAGE_MAX);
    assert_eq!(soon(records.consumers(page.last(), usize::MAX)).unwrap().len(), 1);
}
