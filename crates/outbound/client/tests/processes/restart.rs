//! What was learned outlives the processes that learned it.

use tollway_client::ApiLimiter;
use tollway_core::Span;
use tollway_testkit::servers::RedisServer;

use crate::fleet::{Fleet, limiter};
use crate::refusal::{FIVE_NUMBERS, LATENCY, callers, learned, refuse_once};
use crate::{config, now, until, vendor};

const WORKERS: usize = 4;

/// D5: the learned rate survives a restart of all processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_learned_rate_survives_a_restart_of_all_processes() {
    let redis = RedisServer::start();
    let vendor = vendor("1M / second bucket", Span::ZERO, LATENCY).await;
    let config = config(&redis.url(), &vendor, FIVE_NUMBERS);
    let fleet = Fleet::start(WORKERS, &config);
    until("every process calls", async || callers(&vendor, now().minus(Span::from_secs(5))).len() == WORKERS)
        .await;
    refuse_once(&vendor).await;
    assert_eq!(fleet.end().failed, 0);
    let before = learned(&config).await;
    assert!(before.cut == 1 && (50_000_000..52_000_000).contains(&before.rate), "{before:?}");

    let restarted = now();
    let fleet = Fleet::start(WORKERS, &config);
    until("every process calls again", async || callers(&vendor, restarted).len() == WORKERS).await;
    assert_eq!(fleet.end().failed, 0);
    let after = learned(&config).await;
    assert!(after.cut == 1 && (before.rate..52_000_000).contains(&after.rate), "{after:?}");
    let limits = ApiLimiter::new(&limiter(&config), "vendor").unwrap();
    let shown = limits.snapshot().await.unwrap().current_rate.unwrap();
    assert!((50.0..52.0).contains(&shown), "{shown}");
}

/// `memory:` forgets at exit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_learned_rate_in_memory_ends_with_its_process() {
    let vendor = vendor("10 / second bucket", Span::ZERO, LATENCY).await;
    let config = config("memory:", &vendor, FIVE_NUMBERS);
    let fleet = Fleet::start(1, &config);
    until("the vendor refuses", async || vendor.counts().refused > 0).await;
    assert_eq!(fleet.end().failed, 0);
    let limits = ApiLimiter::new(&limiter(&config), "vendor").unwrap();
    assert_eq!(limits.snapshot().await.unwrap().current_rate, Some(100.0));
}
