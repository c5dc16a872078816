//! Shutdown: load balancers notice before requests are refused, and leased units are returned.

use super::serving::{Serving, status, wait_until};
use crate::home::Home;

/// During the drain it reports "not ready" but still decides; a second signal ends the drain.
#[test]
fn drain_is_visible_and_a_second_signal_ends_it() {
    let home = Home::with_config(
        "[policies.one]\nlimits = ['9 / hour']\n\
         [server]\nlisten = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\ndrain = '10m'",
    );
    let serving = Serving::start(&home, &[]);
    let ready = || status(&serving.ask("administration", "GET /ready", "", ""));
    assert_eq!(ready(), 200);
    serving.signal("-TERM");
    serving.until_logged("draining");
    assert_eq!((ready(), serving.take("one")), (503, 200));
    assert_eq!(serving.stop().0, Some(0));
}

/// The server debits what it granted without the store before it exits.
#[cfg(feature = "redis")]
#[test]
fn shutdown_debits_grants_made_without_the_store() {
    let redis = tollway_testkit::servers::RedisServer::start();
    let home = Home::with_config(&format!(
        "[store]\nurl = '{}?deadline=300ms'\n[policies.api]\nlimits = ['100 / day from first call']\n\
         [server]\nlisten = '127.0.0.1:0'\ndrain = '0s'",
        redis.url()
    ));
    let serving = Serving::start(&home, &[]);
    let takes = |count: u64| (0..count).map(|_| u64::from(serving.take("api") == 200)).sum::<u64>();
    let by_store = takes(10);
    redis.pause();
    let locally = takes(6);
    // Probes are now a second apart.
    std::thread::sleep(std::time::Duration::from_secs(3));
    redis.resume();
    assert_eq!(serving.stop().0, Some(0));
    let (_, usage, said) = home.run(&["usage", "api", "--json"]);
    let usage: serde_json::Value = serde_json::from_str(&usage).expect(&said);
    let used = usage["policies"][0]["limits"][0]["used"].as_u64().unwrap();
    assert_eq!((by_store, locally, used), (10, 6, 16));
}

/// Leased units are returned before it exits: the store's usage equals the grants.
#[cfg(feature = "redis")]
#[test]
fn shutdown_returns_leased_units() {
    use std::cell::Cell;

    let redis = tollway_testkit::servers::RedisServer::start();
    let home = Home::with_config(&format!(
        "[store]\nurl = '{}'\n[policies.api]\nlimits = ['100000 / day from first call']\nlease = 'on'\n\
         [server]\nlisten = '127.0.0.1:0'",
        redis.url()
    ));
    let serving = Serving::start(&home, &[]);
    let used = || {
        let (_, usage, said) = home.run(&["usage", "api", "--json"]);
        let usage: serde_json::Value = serde_json::from_str(&usage).expect(&said);
        usage["policies"][0]["limits"][0]["used"].as_u64().unwrap()
    };
    let granted = Cell::new(0);
    wait_until("more is leased than granted", || {
        for _ in 0..50 {
            assert_eq!(serving.take("api"), 200);
            granted.set(granted.get() + 1);
        }
        used() > granted.get()
    });
    assert_eq!(serving.stop(), (Some(0), String::new()));
    assert_eq!(used(), granted.get());
}
