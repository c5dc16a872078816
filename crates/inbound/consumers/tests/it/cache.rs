//! The cache of limits in force: few reads, and never a stale answer after a change.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::support::counted::Counted;
use crate::support::{consumer, draft, for_api, soon, validity};
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::watch;
use tollway_consumers::{
    Active, ActiveCache, Amounts, Draft, Generation, Records, RecordsError, RecordsFault, read_date,
};
use tollway_core::{Period, Timestamp};

fn cached() -> (Arc<Counted>, ActiveCache) {
    let records = Counted::new(None);
    let defaults = Amounts::new([-1, 60, -1, -1, -1, -1]).unwrap();
    (Arc::clone(&records), ActiveCache::new(records, defaults))
}

fn at(time: &str) -> Timestamp {
    read_date(&format!("2026-06-01T{time}Z")).unwrap().timestamp()
}

fn active(cache: &ActiveCache, time: &str) -> Result<Arc<Active>, RecordsError> {
    soon(cache.active(&consumer("c"), at(time)))
}

fn minute(active: &Active) -> u64 {
    active.limits.of(Period::Minute).unwrap().get()
}

#[test]
fn a_hit_is_ready_at_once_and_reads_no_records() {
    let (records, cache) = cached();
    let first = active(&cache, "12:00:00").unwrap();
    for time in ["12:00:00", "12:59:59.999"] {
        let known = cache.active(&consumer("c"), at(time)).now_or_never();
        assert!(Arc::ptr_eq(&first, &known.unwrap().unwrap()), "a hit is ready at the first poll");
    }
    assert_eq!(records.reads(), 1);
    soon(cache.active(&consumer("d"), at("12:00:00"))).unwrap();
    assert_eq!(records.reads(), 2, "another consumer needs its own read");
}

#[test]
fn concurrent_misses_share_one_read() {
    let (records, cache) = cached();
    let name = consumer("c");
    let answers = soon(join_all((0..100).map(|_| cache.active(&name, at("12:00:00")))));
    assert_eq!(records.reads(), 1);
    assert!(answers.iter().all(|answer| minute(answer.as_ref().unwrap()) == 60));
}

#[test]
fn a_cancelled_caller_does_not_cancel_the_shared_read() {
    let (records, cache) = cached();
    let name = consumer("c");
    let mut first = Box::pin(cache.active(&name, at("12:00:00")));
    let ready = (&mut first).now_or_never();
    let mut second = Box::pin(cache.active(&name, at("12:00:00")));
    let ready = ready.is_some() || (&mut second).now_or_never().is_some();
    drop(first);
    if !ready {
        soon(second).unwrap();
    }
    active(&cache, "12:00:00").unwrap();
    assert_eq!(records.reads(), 1);
}

/// C3, issue 7: cached per hour, invalidated at once on change.
#[test]
fn a_change_invalidates_the_cache_before_its_response() {
    let (records, cache) = cached();
    let minute_now = || minute(&active(&cache, "12:00:00").unwrap());
    assert_eq!(minute_now(), 60);
    let made = soon(records.create(draft("c", 100))).unwrap();
    assert_eq!(minute_now(), 100);
    soon(records.create(for_api(draft("c", 50), "cards"))).unwrap();
    assert_eq!(minute_now(), 150);
    soon(records.change(made.id, draft("c", 10))).unwrap();
    assert_eq!(minute_now(), 60);
    soon(records.delete(&consumer("c"), made.id)).unwrap();
    assert_eq!(minute_now(), 50);
    soon(records.set_blocked(&consumer("c"), true)).unwrap();
    assert!(active(&cache, "12:00:00").unwrap().blocked);
}

/// C3: a record counts from the first to the last hour that it touches.
#[test]
fn another_hour_is_read_again() {
    let (records, cache) = cached();
    let validity = validity("2026-06-01T12:01:47Z", "2026-06-01T13:00:00Z");
    soon(records.create(Draft { validity, ..draft("c", 100) })).unwrap();
    for (time, limit) in [("11:59:59", 60), ("12:00:00", 100), ("13:59:59", 100), ("14:00:00", 60)] {
        let active = active(&cache, time).unwrap();
        assert_eq!((minute(&active), active.hour.first() <= at(time)), (limit, true), "{time}");
    }
    assert_eq!(records.reads(), 4);
}

#[test]
fn unreadable_records_fall_back_to_the_last_known_limits() {
    let (records, cache) = cached();
    soon(records.create(draft("c", 100))).unwrap();
    let known = active(&cache, "12:30:00").unwrap();
    records.cut_off(true);
    soon(records.set_blocked(&consumer("someone"), true)).unwrap();
    for time in ["12:31:00", "13:00:00", "18:00:00"] {
        let expected = Active { current: false, ..Active::clone(&known) };
        assert_eq!(*active(&cache, time).unwrap(), expected, "{time}");
    }
    let earlier = active(&cache, "11:00:00").unwrap_err();
    assert_eq!(earlier.fault, RecordsFault::Network, "the last known limits are of a later hour");
    let stranger = soon(cache.active(&consumer("stranger"), at("12:31:00"))).unwrap_err();
    assert_eq!(stranger.fault, RecordsFault::Network);
    records.cut_off(false);
    assert_eq!(active(&cache, "13:00:00").unwrap().hour.to_string(), "2026-06-01-13");
    soon(cache.active(&consumer("stranger"), at("12:31:00"))).unwrap();
}

#[test]
fn the_cache_is_off_without_change_notifications() {
    let generation = |number, followed| Generation { number, followed };
    let changes = watch::Sender::new(generation(1, true));
    let records = Counted::new(Some(changes.clone()));
    let cache = ActiveCache::new(Arc::<Counted>::clone(&records), Amounts::NONE);
    let reads = || {
        for _ in 0..3 {
            active(&cache, "12:00:00").unwrap();
        }
        records.reads()
    };
    assert_eq!(reads(), 1);
    changes.send_replace(generation(2, false));
    assert_eq!(reads(), 4, "every time");
    let name = consumer("c");
    soon(join_all((0..5).map(|_| cache.active(&name, at("12:00:00")))));
    assert_eq!(records.reads(), 9, "concurrent callers do not share a read");
    changes.send_replace(generation(3, true));
    assert_eq!(reads(), 10, "reads without notifications are not cached");
}
