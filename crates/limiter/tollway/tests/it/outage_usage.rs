//! What `local` grants while a store is away, by what the process last knew of it, and what the store shows afterwards.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use tollway::core::Lease;
use tollway::{Limiter, Policy, Taken};
use tollway_testkit::servers::RedisServer;

/// No window ends while a test runs.
const LIMIT: &str = "100 requests / day from first call";

fn limiter_at(redis: &RedisServer, limit: &str) -> Limiter {
    let url = format!("{}?deadline=300ms", redis.url());
    let builder = Limiter::builder().with_policy(Policy::new("api", [limit]).unwrap()).unwrap();
    builder.store_at(&url.parse().unwrap()).unwrap().build()
}

/// A limiter that has reached the store.
fn limiter(redis: &RedisServer, limit: &str) -> Limiter {
    let limiter = limiter_at(redis, limit);
    until(|| limiter.usage("api").now().is_ok());
    limiter
}

fn until(reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn take(limiter: &Limiter) -> Taken<'_> {
    limiter.try_take("api").now().unwrap()
}

/// How many of so many takes are granted.
fn grants(limiter: &Limiter, takes: usize) -> u64 {
    (0..takes).filter(|_| take(limiter).is_granted()).count() as u64
}

fn used(limiter: &Limiter) -> u64 {
    limiter.usage("api").now().unwrap().limits[0].used
}

fn is_back(limiter: &Limiter) -> bool {
    limiter.store_status().degraded_since.is_none()
}

/// G7: 95 of 100 are used when the store goes away; a tenth of the five that are left, at least one, is granted.
#[test]
fn g7_local_grants_a_share_of_what_was_left() {
    let redis = RedisServer::start();
    let limiter = limiter(&redis, LIMIT);
    assert_eq!(grants(&limiter, 95), 95);
    redis.kill();
    assert_eq!(grants(&limiter, 20), 1);
}

/// G7: four processes that share a store lose it at the same time, and together stay within the limit.
#[test]
fn g7_processes_without_a_store_stay_within_the_limit() {
    let redis = RedisServer::start();
    let limiters: [Limiter; 4] = std::array::from_fn(|_| limiter(&redis, LIMIT));
    let by_store: u64 = (0..24).flat_map(|_| &limiters).map(|limiter| grants(limiter, 1)).sum();
    assert_eq!(by_store, 96);
    redis.pause();
    let locally: u64 = (0..12).flat_map(|_| &limiters).map(|limiter| grants(limiter, 1)).sum();
    assert!(by_store + locally <= 100, "{by_store} by the store and {locally} without it");
    redis.resume();
    until(|| limiters.iter().all(is_back));
    until(|| used(&limiters[0]) == by_store + locally);
}

/// G7: what was granted without the store is debited when the limiter is dropped, before a probe has found the store.
#[test]
fn g7_dropping_a_degraded_limiter_debits_its_grants() {
    let redis = RedisServer::start();
    let (ending, other) = (limiter(&redis, LIMIT), limiter(&redis, LIMIT));
    assert_eq!(grants(&ending, 10), 10);
    redis.pause();
    let locally = grants(&ending, 6);
    // Probes are now a second apart.
    std::thread::sleep(Duration::from_secs(3));
    redis.resume();
    drop(ending);
    assert_eq!((locally, used(&other)), (6, 16));
}

/// A program on an async runtime waits for it with `close`.
#[tokio::test]
async fn g7_closing_a_degraded_limiter_debits_its_grants() {
    let redis = RedisServer::start();
    let (ending, other) = {
        let (ending, other) = (limiter_at(&redis, LIMIT), limiter_at(&redis, LIMIT));
        while ending.usage("api").await.is_err() || other.usage("api").await.is_err() {}
        (ending, other)
    };
    assert!(ending.try_take("api").await.unwrap().is_granted());
    redis.pause();
    let mut locally = 0;
    for _ in 0..6 {
        locally += u64::from(ending.try_take("api").await.unwrap().is_granted());
    }
    // Probes are now a second apart.
    tokio::time::sleep(Duration::from_secs(3)).await;
    redis.resume();
    ending.close().await.unwrap();
    let used = other.usage("api").await.unwrap().limits[0].used;
    assert_eq!((locally, used), (6, 7));
}

/// What the store says of a lease counts as well, and the units of a lease are not granted twice.
#[test]
fn g7_a_lease_tells_what_was_left() {
    let redis = RedisServer::start();
    let url = format!("{}?deadline=300ms", redis.url());
    let policy = Policy::new("api", ["1000 requests / day from first call"]).unwrap();
    let policy = policy.with_lease(Lease::On).with_local_share("1/1".parse().unwrap());
    let builder = Limiter::builder().with_policy(policy).unwrap();
    let limiter = builder.store_at(&url.parse().unwrap()).unwrap().build();
    until(|| limiter.usage("api").now().is_ok());
    assert_eq!(grants(&limiter, 950), 950);
    redis.kill();
    let locally = grants(&limiter, 200);
    assert!(locally <= 50, "{locally} of 50 that were left");
}
