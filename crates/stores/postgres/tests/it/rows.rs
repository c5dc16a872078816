//! What is in the tables: nothing for denials, nothing that has expired, everything that still counts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::support;
use crate::support::{fresh_schema, policy, rows, server, store, store_with_clock, subject, try_take, used};
use tollway_core::{Policy, Span, Timestamp};
use tollway_postgres::PostgresStore;
use tollway_testkit::ManualClock;

const START: Timestamp = Timestamp::from_secs(1_767_225_600);

/// How long accounts are kept after they count.
const KEPT: Span = Span::from_mins(10);

/// Sweeps run in the background. A sweep deletes expired recorded calls last: when a second planted one is gone, a sweep has
/// begun and ended meanwhile. One account more is there afterwards.
fn sweep_for_sure(store: &PostgresStore, schema: &str) {
    let policy = Policy::new("sweeper", ["100k requests / day"]).unwrap();
    for _ in 0..2 {
        server().query(&format!("INSERT INTO {schema}.calls VALUES ('planted', 'planted', 1, 1, '', 1)"));
        let planted = format!("SELECT count(*) FROM {schema}.calls WHERE writer = 'planted'");
        let gone = (0..500).any(|_| {
            assert!(try_take(store, &policy, &subject("s")));
            server().query(&planted) == "0"
        });
        assert!(gone, "no sweep came");
    }
}

#[test]
fn denials_and_peeks_write_nothing() {
    let schema = fresh_schema();
    let store = store(&schema);
    let policy = policy("1 request / day");
    assert_eq!(used(&store, &policy, &subject("looked at")), 0);
    assert_eq!((rows(&schema, "lines"), rows(&schema, "calls")), (0, 0));
    assert!(try_take(&store, &policy, &subject("s")));
    let row = format!("SELECT xmin, ctid FROM {schema}.lines");
    let written = server().query(&row);
    assert!(!try_take(&store, &policy, &subject("s")));
    assert_eq!(server().query(&row), written);
    assert_eq!((rows(&schema, "lines"), rows(&schema, "calls")), (1, 1));
}

#[test]
fn expired_accounts_are_deleted_and_live_ones_stay() {
    let schema = fresh_schema();
    let clock = Arc::new(ManualClock::at(START));
    let store = store_with_clock(&schema, clock.clone());
    let (minute, day) = (policy("1 request / minute"), Policy::new("d", ["1 request / day"]).unwrap());
    for number in 0..20 {
        assert!(try_take(&store, &minute, &subject(&number.to_string())));
        assert!(try_take(&store, &day, &subject(&number.to_string())));
    }
    clock.advance(Span::from_micros(Span::from_mins(1).as_micros() - 1));
    assert!(!try_take(&store, &minute, &subject("7")), "it still counts");
    clock.advance(KEPT);
    sweep_for_sure(&store, &schema);
    assert_eq!(rows(&schema, "lines"), 41, "it is not yet long enough that they counted");
    clock.advance(Span::from_micros(1));
    sweep_for_sure(&store, &schema);
    assert_eq!(rows(&schema, "lines"), 21);
    assert!((0..20).all(|number| !try_take(&store, &day, &subject(&number.to_string()))), "days still count");
}

/// A forgotten window must not be found new by a clock that was set back, nor by another server's that lags.
#[test]
fn a_clock_that_goes_back_does_not_reset_deleted_accounts() {
    let schema = fresh_schema();
    let clock = Arc::new(ManualClock::at(START));
    let store = store_with_clock(&schema, clock.clone());
    let minute = policy("1 request / minute");
    assert!(try_take(&store, &minute, &subject("s")));
    clock.advance(KEPT.plus(Span::from_secs(90)));
    sweep_for_sure(&store, &schema);
    assert_eq!(rows(&schema, "lines"), 1);
    clock.set(START.plus(Span::from_secs(30)));
    let booking = support::take(&store, &[&minute], &subject("s")).unwrap().unwrap();
    assert_eq!(booking.at, START.plus(Span::from_mins(1)), "not in the minute that was spent and forgotten");
}

#[test]
fn recorded_calls_are_deleted_after_their_expiry() {
    let schema = fresh_schema();
    let store = store_with_clock(&schema, Arc::new(ManualClock::at(START)));
    let policy = policy("9 requests / day");
    assert!(try_take(&store, &policy, &subject("old")));
    assert!(try_take(&store, &policy, &subject("new")));
    let named = |name: &str| format!("WHERE convert_from(tag, 'UTF8') LIKE '%{name}'");
    server().query(&format!("UPDATE {schema}.calls SET kept_until = 1 {}", named("old")));
    sweep_for_sure(&store, &schema);
    let left = |name: &str| server().query(&format!("SELECT count(*) FROM {schema}.calls {}", named(name)));
    assert_eq!((left("old").as_str(), left("new").as_str()), ("0", "1"));
}

/// Bytes mean the same in every database, whatever its encoding.
#[test]
fn subjects_of_any_script_work_in_a_database_of_another_encoding() {
    let name = fresh_schema();
    server().query(&format!("CREATE DATABASE {name} ENCODING LATIN1 TEMPLATE template0"));
    let url = support::url("tollway").replace("/postgres?", &format!("/{name}?"));
    let store = PostgresStore::connect(&url).unwrap();
    let policy = policy("1 request / day");
    for text in ["東京", "Ω\u{1f980}", "a'b\"c\\d\n"] {
        assert!(try_take(&store, &policy, &subject(text)));
        assert!(!try_take(&store, &policy, &subject(text)));
    }
}
