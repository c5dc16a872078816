//! `local_share = "auto"`: all limiters of a store that goes away together grant at most what was left.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what is not promised is printed")]

use std::time::{Duration, Instant};

use tollway::Limiter;
use tollway_testkit::servers::{PostgresServer, RedisServer};

const LIMITERS: usize = 64;

/// No window ends while a test runs.
const LIMIT: &str = "1000 requests / day from first call";

fn limiter_at(url: &str) -> Limiter {
    let url = format!("{url}{}deadline=2s", if url.contains('?') { '&' } else { '?' });
    let builder = Limiter::builder().policy("api", [LIMIT]).unwrap();
    let builder = builder.policy("few", ["7 requests / day"]).unwrap();
    builder.store_at(&url.parse().unwrap()).unwrap().build()
}

fn until(reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(120), "waited two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn knows(limiter: &Limiter, limiters: usize) -> bool {
    let _ = limiter.follow_settings().now();
    limiter.store_status().limiters.is_some_and(|known| known.get() as usize == limiters)
}

/// Limiters of one store, as processes have them, each with connections of its own. All of them know their number.
fn limiters(url: &str, count: usize) -> Vec<Limiter> {
    let limiters: Vec<Limiter> = (0..count).map(|_| limiter_at(url)).collect();
    limiters.iter().for_each(|limiter| until(|| knows(limiter, count)));
    limiters
}

fn grants(limiter: &Limiter, takes: usize) -> usize {
    (0..takes).filter(|_| limiter.try_take("api").now().unwrap().is_granted()).count()
}

/// Takes in turn, as many as there are, so that the last of each are the last of all.
fn grants_in_turn(limiters: &[Limiter], takes: usize) -> usize {
    limiters.iter().cycle().take(takes).map(|limiter| grants(limiter, 1)).sum()
}

/// How many each grants while the store is away, until it denies. The store is back afterwards: a limiter that ends waits for it.
fn grants_without(redis: &RedisServer, limiters: &[Limiter]) -> Vec<usize> {
    redis.pause();
    // Each waits for the store until it knows that it is away.
    let shares = std::thread::scope(|scope| {
        let granting = limiters.iter().map(|limiter| scope.spawn(|| grants(limiter, 200)));
        let granting: Vec<_> = granting.collect();
        granting.into_iter().map(|granted| granted.join().unwrap()).collect()
    });
    redis.resume();
    shares
}

fn is_back(limiter: &Limiter) -> bool {
    limiter.store_status().degraded_since.is_none()
}

/// G7: 64 limiters lose their store when nothing, half and 95 % of the window is used; the sum stays within the limit.
#[test]
fn g7_sixty_four_limiters_without_a_store_stay_within_the_limit() {
    for used in [0, 500, 950] {
        let redis = RedisServer::start();
        let limiters = limiters(&redis.url(), LIMITERS);
        // Each takes once at the end; the takes before are those of the first.
        let by_store =
            grants(&limiters[0], usize::max(used, LIMITERS) - LIMITERS) + grants_in_turn(&limiters, LIMITERS);
        let shares = grants_without(&redis, &limiters);
        let locally: usize = shares.iter().sum();
        println!("{used} of 1000 used: {by_store} by the store, {locally} without it, shares {shares:?}");
        assert!(by_store + locally <= 1_000, "{by_store} by the store and {locally} without it");
        assert!(shares.iter().all(|share| *share <= 100), "{shares:?}: more than a tenth");
        assert!(used > 900 || shares.iter().all(|share| *share > 0), "{shares:?}");
    }
}

/// What those know that took nothing since the window began is not promised: it is printed.
#[test]
fn g7_idle_limiters_grant_by_what_they_last_knew() {
    let redis = RedisServer::start();
    let limiters = limiters(&redis.url(), LIMITERS);
    let (idle, busy) = limiters.split_at(LIMITERS / 2);
    let at_first = grants_in_turn(&limiters, LIMITERS);
    let by_store = at_first + grants_in_turn(busy, 950 - LIMITERS);
    let shares = grants_without(&redis, &limiters);
    let [by_idle, by_busy] =
        [&shares[..idle.len()], &shares[idle.len()..]].map(|part| part.iter().sum::<usize>());
    println!(
        "{by_store} by the store; without it {by_busy} by 32 busy limiters and {by_idle} by 32 idle ones, of 1000"
    );
    assert!(by_store + by_busy <= 1_000);
    assert!(by_idle <= 1_000 / 2, "half of the limiters have half of what they knew");
}

/// G7: one that knows of less than a unit for each limiter grants nothing, and a limit of fewer units than there are limiters
/// has no shares at all.
#[test]
fn g7_more_limiters_than_units_grant_nothing() {
    let redis = RedisServer::start();
    let limiters = limiters(&redis.url(), 8);
    assert_eq!(grants(&limiters[0], 985) + grants_in_turn(&limiters, 8), 993);
    let shares = grants_without(&redis, &limiters);
    assert_eq!(shares, [1, 1, 1, 1, 1, 1, 1, 0], "they know of 14, 13, and so on to 7");
    redis.pause();
    let denied = limiters[0].try_take("few").now().unwrap().denied().unwrap();
    redis.resume();
    assert!(denied.degraded() && !denied.retry_after().is_zero());
}

/// G7: a second outage in one window has its share of what the store said after the first one's grants were debited.
#[test]
fn g7_a_second_outage_has_its_share_of_what_is_left_then() {
    let redis = RedisServer::start();
    let limiters = limiters(&redis.url(), 16);
    let mut granted = grants_in_turn(&limiters, 16);
    redis.pause();
    let first = grants(&limiters[0], 200);
    assert_eq!(first, 62, "a sixteenth of 999");
    granted += first;
    redis.resume();
    until(|| limiters.iter().all(is_back));
    let used = || limiters[0].usage("api").now().map(|usage| usage.limits[0].used as usize);
    until(|| used().is_ok_and(|used| used == granted));
    granted += grants_in_turn(&limiters, 16);
    let shares = grants_without(&redis, &limiters);
    assert!(shares.iter().all(|share| (56..=58).contains(share)), "a sixteenth of 906 to 921: {shares:?}");
    granted += shares.iter().sum::<usize>();
    assert!(granted <= 1_000, "{granted}");
}

/// A limiter that ends is counted for a minute; one that reads once does not register.
#[test]
fn limiters_that_stay_are_counted_in_postgres() {
    let server = PostgresServer::start();
    let limiters = limiters(&server.url(), 3);
    let command = limiter_at(&server.url());
    until(|| knows(&command, 4));
    drop(command);
    assert!(limiters.iter().all(|limiter| knows(limiter, 3)));
}
