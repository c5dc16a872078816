//! One limit for every machine: waiting in the store's queue, and limits set at run time (A2, A3, B4).
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollway::core::{Answer, Operation, Settings};
use tollway::{Durations, Limiter, Store};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisServer;

/// Counts the calls to the store.
struct Counted(RedisStore, AtomicU64);

impl Store for Counted {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        self.0.settings()
    }
}

/// A2: a waiter calls the store once and sleeps until its booking is due; it does not poll. B4: first come, first served.
#[tokio::test]
async fn a2_five_hundred_waiters_call_the_store_once_each_and_are_served_in_order() {
    let redis = RedisServer::start();
    let url = format!("{}?deadline=10s", redis.url());
    let store = Arc::new(Counted(RedisStore::open(&url).unwrap(), AtomicU64::new(0)));
    let builder = Limiter::builder().policy("vendor", ["100 requests / second"]).unwrap();
    let limiter = builder.store(store.clone()).build();
    let waiting: Vec<_> = (0..500)
        .map(|number| {
            let limiter = limiter.clone();
            // In order of arrival: each calls before the next is made.
            let take = limiter.take("vendor").max_wait(60.seconds());
            let permit = std::future::IntoFuture::into_future(take);
            tokio::spawn(async move { (number, permit.await.unwrap().good_until().unwrap()) })
        })
        .collect();
    let mut places = Vec::new();
    for task in waiting {
        places.push(task.await.unwrap());
    }
    assert_eq!(store.1.load(Ordering::SeqCst), 500, "one call each");
    assert!(places.is_sorted_by_key(|(_, window)| *window), "served in order of arrival");
    let mut windows: Vec<_> = places.iter().map(|(_, window)| *window).collect();
    windows.dedup();
    assert!((5..=6).contains(&windows.len()), "a hundred a second: {windows:?}");
}

/// A3: a limit is set by one process, and every other follows by itself.
#[test]
fn a3_every_process_follows_a_limit_that_is_set() {
    let redis = RedisServer::start();
    let limiter = || {
        let builder = Limiter::builder().policy("adobe", ["200 requests / minute"]).unwrap();
        builder.store_at(&redis.url().parse().unwrap()).unwrap().build()
    };
    let amount = |limiter: &Limiter| limiter.policies()[0].limits()[0].amount();
    let (one, others) = (limiter(), [limiter(), limiter()]);
    for to in ["250 requests / minute", "180"] {
        one.set_limit("adobe", "requests_per_minute", to).now().unwrap();
        let wanted = amount(&one);
        while others.iter().any(|other| amount(other) != wanted) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    one.clear_limit("adobe", "requests_per_minute").now().unwrap();
    while others.iter().any(|other| amount(other) != 200) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// On a layout without a queue a waiter retries when the store says (C2).
#[test]
fn a_waiter_on_a_layout_without_a_queue_retries_in_time() {
    let redis = RedisServer::start();
    let url = format!("{}?layout=consumers&deadline=5s", redis.url());
    let builder = Limiter::builder().policy("api", ["2 requests / second from first call"]).unwrap();
    let limiter = builder.store_at(&url.parse().unwrap()).unwrap().build();
    for _ in 0..5 {
        assert!(!limiter.take("api").subject("consumer_1").max_wait(30.seconds()).wait().unwrap().degraded());
    }
}
