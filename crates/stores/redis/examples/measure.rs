//! What a take in Redis costs: takes a second, the processor time of the server for each, the network's included, and the
//! memory of an account, what is kept for retries included.
//!
//! `cargo run --release -p tollway-redis --example measure`, with redis-server installed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for people"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollway_core::{Action, Charge, Operation, PermitId, Policy, Store, Subject, Terms};
use tollway_redis::RedisStore;
use tollway_testkit::servers::RedisServer;

const CALLERS: u64 = 50;
const LASTS: Duration = Duration::from_secs(4);

const ONE: [&str; 1] = ["1M / minute"];
const SIX: [&str; 6] = [
    "1M / second",
    "10M / minute",
    "100M / hour",
    "1G / day in America/Los_Angeles",
    "1G / week",
    "10G / month",
];
const BUCKETS: [&str; 6] = [
    "a: 1M / second bucket",
    "b: 10M / minute bucket",
    "c: 100M / hour bucket",
    "d: 1G / day bucket",
    "e: 7 tokens / second bucket",
    "f: 9 tokens / minute bucket",
];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (name, limits, lines) in [
        ("one window, one account", &ONE[..], 1),
        ("one window, 10,000 accounts", &ONE[..], 10_000),
        ("six windows, one account", &SIX[..], 1),
        ("six windows, 10,000 accounts", &SIX[..], 10_000),
        ("six buckets, one account", &BUCKETS[..], 1),
        ("six buckets, 10,000 accounts", &BUCKETS[..], 10_000),
    ] {
        runtime.block_on(measure(name, limits, lines));
    }
}

async fn measure(name: &str, limits: &[&str], lines: u64) {
    let server = RedisServer::start();
    let empty = memory(&server);
    let store = Arc::new(RedisStore::open(&server.url()).unwrap());
    let policy = Arc::new(Policy::new("measured", limits.iter().copied()).unwrap());
    let permits = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + LASTS;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, policy, permits) = (store.clone(), policy.clone(), permits.clone());
            tokio::spawn(async move {
                let mut number = caller;
                while Instant::now() < until {
                    take(&store, &policy, number % lines, permits.fetch_add(1, Ordering::Relaxed)).await;
                    number += 7_919;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let takes = permits.load(Ordering::Relaxed);
    let stats = server.command(&["INFO", "all"]);
    let calls =
        stats.lines().filter_map(|line| line.strip_prefix("cmdstat_eval")?.split_once("calls=")).map(count);
    let calls: u64 = calls.sum();
    // Processor time, not the clock's: what else runs on the machine matters less.
    let busy: f64 = ["used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"]
        .map(|name| seconds(&stats, name))
        .iter()
        .sum();
    let held = memory(&server).saturating_sub(empty);
    println!(
        "{name:28} {:8.0} takes/s  {:5.1} takes a call  {:6.1} us a call  {:5.1} us a take  {:8.0} bytes an account",
        takes as f64 / LASTS.as_secs_f64(),
        takes as f64 / calls as f64,
        busy * 1e6 / calls as f64,
        busy * 1e6 / takes as f64,
        held as f64 / lines as f64,
    );
}

/// What the server holds, as it says.
fn memory(server: &RedisServer) -> u64 {
    let info = server.command(&["INFO", "memory"]);
    info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap()
}

fn count((_, rest): (&str, &str)) -> u64 {
    rest.split(',').next().unwrap().parse().unwrap()
}

fn seconds(stats: &str, name: &str) -> f64 {
    stats.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

async fn take(store: &RedisStore, policy: &Arc<Policy>, line: u64, permit: u64) {
    let subject = Subject::new(&line.to_string()).unwrap();
    let charge = Charge::new(Arc::clone(policy), subject);
    let action = Action::Take(Terms::now(PermitId(permit.into())));
    store.apply(&[Operation::one(charge, action)]).await.unwrap();
}
