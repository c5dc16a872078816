//! Exact at the vendor, not only in the store: `begin` just before the call goes out. A1.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::paused::{PausedClock, START, limiter_of, used};
use tokio::time::sleep;
use tollway::{Clock, Durations, Policy, Span};

/// So many a minute, with the edge that policies of an api have.
fn vendor_policy(amount: u64) -> Policy {
    let limit = format!("{amount} / minute");
    Policy::new("vendor", [limit.as_str()]).unwrap().with_edge(Span::from_millis(250))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_granted_in_the_first_and_last_edge_of_a_window() {
    let (limiter, clock) = limiter_of([vendor_policy(2)]);
    assert!(!limiter.try_take("vendor").await.unwrap().is_granted());
    drop(limiter.take("vendor").await.unwrap());
    assert_eq!(clock.millis(), 250);
    sleep(59_500.millis()).await;
    drop(limiter.take("vendor").await.unwrap());
    assert_eq!(clock.millis(), 60_250, "it costs no quota: there was one left, but too late");
    drop(limiter.take("vendor").await.unwrap());
    assert_eq!((clock.millis(), used(&limiter, "vendor").await), (60_250, 2));
}

#[tokio::test(start_paused = true)]
async fn begin_is_free_while_the_permit_is_good() {
    let (limiter, clock) = limiter_of([vendor_policy(2)]);
    let mut permit = limiter.take("vendor").await.unwrap();
    permit.begin().await.unwrap();
    sleep(59_499.millis()).await;
    permit.begin().await.unwrap();
    assert_eq!(
        (clock.millis(), used(&limiter, "vendor").await),
        (59_749, 1),
        "the last moment before the edge"
    );
}

#[tokio::test(start_paused = true)]
async fn begin_takes_again_once_if_it_is_too_late() {
    let (limiter, clock) = limiter_of([vendor_policy(2)]);
    let mut permit = limiter.take("vendor").await.unwrap();
    let first = permit.id();
    sleep(59_500.millis()).await;
    permit.begin().await.unwrap();
    assert_eq!(clock.millis(), 60_250, "it waited for the next window");
    assert_ne!(permit.id(), first);
    permit.begin().await.unwrap();
    assert_eq!((clock.millis(), used(&limiter, "vendor").await), (60_250, 1), "once is enough");
    sleep(2.minutes()).await;
    permit.begin().await.unwrap();
    assert_eq!((clock.millis(), used(&limiter, "vendor").await), (180_250, 1), "later still, again");
}

/// A late begin goes to the back of the queue: takes that booked the next window meanwhile go first.
#[tokio::test(start_paused = true)]
async fn a_late_begin_joins_the_back_of_the_queue() {
    let (limiter, clock) = limiter_of([vendor_policy(1)]);
    let mut late = limiter.take("vendor").await.unwrap();
    let other = tokio::spawn({
        let (limiter, clock) = (limiter.clone(), clock.clone());
        async move {
            drop(limiter.take("vendor").await.unwrap());
            clock.millis()
        }
    });
    sleep(59_600.millis()).await;
    late.begin().await.unwrap();
    assert_eq!(clock.millis(), 120_250);
    assert_eq!(other.await.unwrap(), 60_250);
}

/// A bucket has no window to miss, and a window without a `begin` is as good as any: inbound callers never begin.
#[tokio::test(start_paused = true)]
async fn a_permit_of_a_bucket_does_not_expire() {
    let (limiter, clock) = limiter_of([Policy::new("vendor", ["1 / minute bucket"]).unwrap()]);
    let mut permit = limiter.take("vendor").await.unwrap();
    sleep(60.minutes()).await;
    permit.begin().await.unwrap();
    assert_eq!((clock.millis(), used(&limiter, "vendor").await), (3_600_000, 0));
}

/// A vendor that counts calls per minute of its own clock, which is wrong by `offset` milliseconds.
struct Vendor {
    clock: Arc<PausedClock>,
    offset: i64,
    minutes: Mutex<BTreeMap<u64, u64>>,
}

impl Vendor {
    fn call(&self) {
        let now = self.clock.now().as_millis().saturating_add_signed(self.offset);
        *self.minutes.lock().unwrap().entry(now / 60_000).or_default() += 1;
    }

    fn most(&self) -> u64 {
        self.minutes.lock().unwrap().values().copied().max().unwrap()
    }
}

const AMOUNT: u64 = 20;
const TASKS: u64 = 30;
const CALLS: u64 = 20;

/// Tasks that take, dawdle, and call the vendor; answers what it saw.
async fn calls_seen_by_a_vendor(offset: i64, begins: bool) -> Vendor {
    let (limiter, clock) = limiter_of([vendor_policy(AMOUNT)]);
    let vendor = Arc::new(Vendor { clock, offset, minutes: Mutex::default() });
    let task = |number: u64| {
        let (limiter, vendor) = (limiter.clone(), vendor.clone());
        tokio::spawn(async move {
            for call in 0..CALLS {
                let mut permit = limiter.take("vendor").await.unwrap();
                // Now and then longer than its window lasts.
                sleep(((number * 7_919 + call * 104_729) % 75_000).millis()).await;
                if begins {
                    permit.begin().await.unwrap();
                }
                // On its way: less than the edge, together with the offset.
                sleep(((number * 31 + call * 17) % 50).millis()).await;
                vendor.call();
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        task.await.unwrap();
    }
    Arc::into_inner(vendor).unwrap()
}

/// A1: in no minute of the vendor's do all tasks together make call N + 1, whichever way its clock is off.
#[tokio::test(start_paused = true)]
async fn a1_no_minute_of_the_vendor_sees_one_call_too_many() {
    for offset in [-200, -100, 0, 100, 200] {
        let vendor = calls_seen_by_a_vendor(offset, true).await;
        assert!(vendor.most() <= AMOUNT, "{} of {AMOUNT} with a clock off by {offset} ms", vendor.most());
        assert_eq!(vendor.minutes.lock().unwrap().values().sum::<u64>(), TASKS * CALLS);
    }
}

/// The test above would notice: a token taken in one minute and spent in the next is what it looks for.
#[tokio::test(start_paused = true)]
async fn a1_without_begin_the_same_vendor_sees_too_many() {
    assert!(calls_seen_by_a_vendor(0, false).await.most() > AMOUNT);
    assert_eq!(START.as_millis() % 60_000, 0);
}
