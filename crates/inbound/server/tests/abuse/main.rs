//! A soak test: slow clients, floods, garbage and aborted requests hit a real `tollway serve` at the same time. Its memory
//! and file descriptors stay flat, and a well-behaved client is served.
//!
//! `scripts/abuse` builds the command and runs this.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "helpers of tests may fail the test"
)]

#[allow(dead_code, reason = "the HTTP client of the server that these tests share with others")]
#[path = "../it/client.rs"]
mod client;
mod crowd;
mod good_client;
#[path = "../it/http2.rs"]
mod http2;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../it/redis_client.rs"]
mod redis_client;
mod running;
mod samples;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use running::{LONG, Running};
use samples::Samples;

/// The default duration; `TOLLWAY_ABUSE_SECONDS` overrides it.
const SECONDS_DEFAULT: u64 = 180;

/// The shortest meaningful duration: in its first third, the store and the caches must fill up.
const SECONDS_MIN: u64 = 90;

/// A sample of the server's memory and descriptors each second.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How much more memory the last third may need than the middle one, because allocators fluctuate.
const MEMORY_GROWTH_MAX: f64 = 1.10;

/// The same for file descriptors, which come and go with each round.
const DESCRIPTORS_GROWTH_MAX: f64 = 1.25;

/// File descriptors that may stay open at the end: connections whose close the server has not noticed yet.
const DESCRIPTORS_LEFT_MAX: usize = 8;

/// T21, T15, T19: all kinds of abuse at once.
#[test]
#[ignore = "takes minutes and a built command: scripts/abuse"]
fn abuse_leaves_memory_and_descriptors_flat() {
    let seconds =
        std::env::var("TOLLWAY_ABUSE_SECONDS").map_or(SECONDS_DEFAULT, |text| text.parse().unwrap());
    assert!(seconds >= SECONDS_MIN, "TOLLWAY_ABUSE_SECONDS={seconds} is below the minimum, {SECONDS_MIN}");
    let server = Running::start();
    let at_first = server.descriptors();
    let over = AtomicBool::new(false);
    let (samples, polite, rounds) = thread::scope(|scope| {
        let crowd = crowd::gather(scope, &server, &over);
        let polite = scope.spawn(|| good_client::ask_until(&server, &over));
        let samples = sample(&server, seconds, || polite.is_finished());
        over.store(true, Ordering::Relaxed);
        let polite = polite.join().unwrap();
        let rounds: Vec<_> = crowd.into_iter().map(|(name, one)| (name, one.join().unwrap())).collect();
        (samples, polite, rounds)
    });
    eprintln!("abuse of {seconds} s: {rounds:?}");
    eprintln!("{polite}");
    eprintln!("memory in KiB: {}", samples.memory());
    eprintln!("descriptors:   {}", samples.descriptors());
    assert!(rounds.iter().all(|(_, rounds)| *rounds > 0), "a kind of abuse did not run");
    assert!(samples.memory().growth() <= MEMORY_GROWTH_MAX, "memory grows: {}", samples.memory());
    assert!(
        samples.descriptors().growth() <= DESCRIPTORS_GROWTH_MAX,
        "descriptors grow: {}",
        samples.descriptors()
    );
    are_gone(&server, at_first + DESCRIPTORS_LEFT_MAX);
}

/// Waits until the connections of the abusers are closed.
fn are_gone(server: &Running, most: usize) {
    let end = Instant::now() + LONG;
    while server.descriptors() > most {
        assert!(Instant::now() < end, "{} descriptors, {most} wanted", server.descriptors());
        thread::sleep(SAMPLE_INTERVAL);
    }
}

/// Samples the server until the time is over or the good client fails.
fn sample(server: &Running, seconds: u64, given_up: impl Fn() -> bool) -> Samples {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut samples = Samples::default();
    while Instant::now() < end && !given_up() {
        samples.add(server.memory_kib(), server.descriptors());
        thread::sleep(SAMPLE_INTERVAL);
    }
    samples
}
