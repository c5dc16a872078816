//! The process's clock is the store's time: off by more than two seconds, nothing is decided.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support;
use crate::support::{fresh_table, policy, subject, take, try_take, url};
use tollway_aws::SystemClock;
use tollway_core::{Clock, Fault, Retry, Timestamp};
use tollway_dynamodb::{DynamoLink, DynamoOptions, DynamoStore};

/// A machine's clock that is off by so many milliseconds.
#[derive(Debug, Default)]
struct OffBy(AtomicI64);

impl Clock for OffBy {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(
            SystemClock.now().as_millis().saturating_add_signed(self.0.load(Ordering::SeqCst)),
        )
    }
}

#[test]
fn a_wrong_clock_decides_nothing_until_corrected() {
    let options: DynamoOptions = url(&fresh_table()).replace("20s", "300ms").parse().unwrap();
    let clock = Arc::new(OffBy::default());
    let link = DynamoLink::going_by(clock.clone(), options.clone());
    let store = DynamoStore::start(link, options).unwrap();
    let policy = policy("1000 requests / day from first call");
    while take(&store, &[&policy], &subject("s")).is_err() {}
    for off in [600_000, -600_000, 5_000, -5_000] {
        clock.0.store(off, Ordering::SeqCst);
        // The reply to the first write tells; it was decided before anybody could know. If that comes after the deadline, it
        // is open what was written; of all that follow it is clear.
        let clear =
            |_| take(&store, &[&policy], &subject("s")).err().filter(|error| error.retry != Retry::Unclear);
        let errors = (0..100).find_map(clear);
        let error = errors.unwrap();
        assert_eq!((error.fault, error.retry), (Fault::Store, Retry::Safe), "{off}: {error}");
        assert!(error.message.contains("clock says") && error.message.contains("set it right"), "{error}");
        clock.0.store(0, Ordering::SeqCst);
        while take(&store, &[&policy], &subject("s")).is_err() {}
    }
}

/// A process that starts with a wrong clock has read before it writes: nothing is decided by it at all.
#[test]
fn a_wrong_clock_is_detected_before_the_first_decision() {
    let table = fresh_table();
    let options: DynamoOptions = url(&table).replace("20s", "1s").parse().unwrap();
    let link = DynamoLink::going_by(Arc::new(OffBy(AtomicI64::new(60_000))), options.clone());
    let wrong = DynamoStore::start(link, options).unwrap();
    let policy = policy("1000 requests / day");
    take(&wrong, &[&policy], &subject("s")).unwrap_err();
    assert!(support::server().items(&table).is_empty());
}

#[test]
fn a_clock_error_of_one_second_is_accepted() {
    let options: DynamoOptions = url(&fresh_table()).parse().unwrap();
    let link = DynamoLink::going_by(Arc::new(OffBy(AtomicI64::new(-1_000))), options.clone());
    let store = DynamoStore::start(link, options).unwrap();
    (0..20).for_each(|_| assert!(try_take(&store, &policy("1000 requests / day"), &subject("s"))));
}
