//! What is in the table: nothing for denials, readable items, and their expiry (G6).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::support::{
    fresh_table, number, policy, server, store, store_with_clock, subject, take, try_take, used,
};
use tollway_core::{Fault, Policy, Retry, Span, Timestamp};
use tollway_testkit::ManualClock;

/// The first of January 2026, midnight in UTC.
const START: Timestamp = Timestamp::from_secs(1_767_225_600);

#[test]
fn denials_and_peeks_write_nothing() {
    let table = fresh_table();
    let (store, policy) = (store(&table), policy("1 request / day"));
    assert_eq!(used(&store, &policy, &subject("looked at")), 0);
    assert!(server().items(&table).is_empty());
    assert!(try_take(&store, &policy, &subject("s")));
    let written = server().only_item(&table);
    assert!(!try_take(&store, &policy, &subject("s")));
    assert_eq!(server().only_item(&table), written);
}

#[test]
fn people_can_read_an_item() {
    let table = fresh_table();
    let (store, policy) = (store(&table), Policy::new("adobe", ["200 requests / minute"]).unwrap());
    assert!(try_take(&store, &policy, &subject("team-a")));
    let item = server().only_item(&table);
    assert_eq!(item["key"]["S"], "1:5:adobe:team-a");
    let line = item["line"]["S"].as_str().unwrap();
    assert!(line.contains(r#""window""#), "{item:?}");
    let writers = item["writers"]["L"].as_array().unwrap();
    let size = line.len() + writers[0]["S"].as_str().unwrap().len();
    assert_eq!(writers.len(), 1);
    assert!(size < 300, "far below the kilobyte that one write unit pays: {size}");
}

/// G6: seven idle days, counted from the last use.
#[test]
fn g6_a_bucket_expires_after_seven_idle_days() {
    let (table, clock) = (fresh_table(), Arc::new(ManualClock::at(START)));
    let store = store_with_clock(&table, clock.clone());
    let bucket = policy("250k tokens / minute bucket");
    let ttl = || Timestamp::from_secs(number(&server().only_item(&table), "ttl"));
    assert!(try_take(&store, &bucket, &subject("s")));
    assert_eq!(ttl(), START.plus(Span::from_days(7)));
    clock.advance(Span::from_days(3));
    assert!(try_take(&store, &bucket, &subject("s")));
    assert_eq!(ttl(), START.plus(Span::from_days(10)));
}

/// G6: a month's quota outlives seven days, and an id its ten minutes.
#[test]
fn g6_an_item_that_still_counts_expires_later() {
    let (table, clock) = (fresh_table(), Arc::new(ManualClock::at(START)));
    let store = store_with_clock(&table, clock.clone());
    assert!(try_take(&store, &policy("1 request / month"), &subject("s")));
    let ttl = Timestamp::from_secs(number(&server().only_item(&table), "ttl"));
    assert_eq!(ttl, START.plus(Span::from_days(31)));
    clock.advance(Span::from_days(8));
    assert!(!try_take(&store, &policy("1 request / month"), &subject("s")), "it counts until February");
}

/// DynamoDB deletes days later, or never: until then an item is judged by its state.
#[test]
fn g6_an_expired_item_that_is_still_there_is_judged_by_its_state() {
    let (table, clock) = (fresh_table(), Arc::new(ManualClock::at(START)));
    let store = store_with_clock(&table, clock.clone());
    let minute = policy("1 request / minute");
    assert!(try_take(&store, &minute, &subject("s")));
    clock.advance(Span::from_days(30));
    assert!(number(&server().only_item(&table), "ttl") < clock_secs(&clock));
    assert!(try_take(&store, &minute, &subject("s")), "as good as new");
    assert!(!try_take(&store, &minute, &subject("s")), "and counts again");
    clock.set(START.plus(Span::from_secs(30)));
    assert!(!try_take(&store, &minute, &subject("s")), "a clock that was set back finds nothing new");
}

fn clock_secs(clock: &ManualClock) -> u64 {
    tollway_core::Clock::now(clock).as_millis() / 1_000
}

#[test]
fn an_item_changed_by_hand_fails_with_a_reason() {
    let table = fresh_table();
    let (store, policy) = (store(&table), policy("9 requests / day"));
    assert!(try_take(&store, &policy, &subject("s")));
    let mut item = server().only_item(&table);
    item["line"]["S"] = "{}".into();
    item["version"]["N"] = "1".into();
    server().put(&table, &item);
    let error = take(&store, &[&policy], &subject("s")).unwrap_err();
    assert_eq!((error.fault, error.retry), (Fault::Account, Retry::Useless));
    assert!(error.message.contains("`line`"), "{error}");
}
