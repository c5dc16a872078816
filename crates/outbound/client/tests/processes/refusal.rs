//! One refusal stops every process.

use std::collections::BTreeSet;

use tollway_core::{Feedback, LearnedRate, Span, Timestamp};
use tollway_testkit::servers::{PostgresServer, RedisServer};
use tollway_vendor::server::{LoggedCall, VendorServer};
use tollway_vendor::{Outcome, Quota, Shape};

use crate::fleet::{Fleet, limiter};
use crate::{config, sleep_until, until, vendor};

const WORKERS: usize = 8;

/// Calls take so long: what is sent right before the refusal is answered still arrives.
pub(crate) const LATENCY: Span = Span::from_millis(40);

/// After a refusal was answered, no process may send a call later than this.
const STOPS_WITHIN: Span = Span::from_millis(150);

/// The same on a machine that is too busy to run eight processes at once: a process that does not obey goes on for the whole
/// wait.
const STOPS_FOR_SURE: Span = Span::from_millis(1_500);

/// The vendor asks for 5 s. Until then no call may come.
const HELD: Span = Span::from_millis(4_500);

/// How often it is tried to see the processes stop in time.
const ROUNDS_MAX: u64 = 3;

/// Any number of calls, or one every five seconds.
const OPEN: Shape = Shape::Bucket { rate: 1_000_000_000_000, burst: 1_000_000 };
const NARROW: Shape = Shape::Bucket { rate: 200_000, burst: 1 };

pub(crate) const FIVE_NUMBERS: &str =
    "rate = { initial = 100, min = 1, max = 100, increase_step = 0.001, decrease_factor = 0.5 }";

/// B5, D5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_refusal_stops_eight_processes_and_cuts_once_with_five_numbers() {
    let redis = RedisServer::start();
    stops_all(&redis.url(), FIVE_NUMBERS).await;
}

/// B5, D5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_refusal_stops_eight_processes_and_cuts_once_with_auto() {
    let redis = RedisServer::start();
    stops_all(&redis.url(), "rate = \"auto\"").await;
}

/// B5, D5: the same on another store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_refusal_stops_eight_processes_and_cuts_once_on_postgres() {
    let postgres = PostgresServer::start();
    stops_all(&postgres.url(), FIVE_NUMBERS).await;
}

async fn stops_all(store: &str, keys: &str) {
    let vendor = vendor("1000 / second bucket", Span::ZERO, LATENCY).await;
    vendor.set_quotas(vec![Quota::calls(OPEN)]);
    let config = config(store, &vendor, keys);
    let fleet = Fleet::start(WORKERS, &config);
    for round in 1..=ROUNDS_MAX {
        let from = crate::now();
        until("every process calls", async || callers(&vendor, from).len() == WORKERS).await;
        let last = refuse_once(&vendor).await;
        let rate = learned(&config).await;
        println!(
            "{keys}, round {round}: last call {last:?} after the refusal was answered; rate {}",
            rate.rate
        );
        assert_eq!(rate.cut, round, "each refusal cuts once: {rate:?}");
        assert!(last <= STOPS_FOR_SURE, "a process went on for {last:?} after a refusal");
        let resumed = crate::now();
        until("every process calls again", async || callers(&vendor, resumed).len() == WORKERS).await;
        if last <= STOPS_WITHIN {
            assert_eq!(fleet.end().failed, 0);
            return;
        }
    }
    panic!("in none of {ROUNDS_MAX} rounds did all processes stop within {STOPS_WITHIN:?}");
}

/// Has the vendor refuse until the end of the wait it asks for. Returns how long after the first refusal was answered a
/// process still sent a call.
pub(crate) async fn refuse_once(vendor: &VendorServer) -> Span {
    let before = vendor.counts().refused;
    vendor.set_quotas(vec![Quota::calls(NARROW)]);
    until("the vendor refuses", async || vendor.counts().refused > before).await;
    let calls = vendor.calls();
    let skipped = usize::try_from(before).unwrap();
    let refused = |call: &&LoggedCall| call.outcome == Outcome::Refused;
    let refusal = calls.iter().filter(refused).nth(skipped).unwrap().at;
    sleep_until(refusal.plus(HELD)).await;
    vendor.set_quotas(vec![Quota::calls(OPEN)]);
    let last = vendor.calls().iter().map(|call| call.at).filter(|at| *at < refusal.plus(HELD)).max().unwrap();
    // Half a latency to the client, and half of one from a client to the vendor.
    last.since(refusal.plus(LATENCY))
}

/// The workers whose calls the vendor has accepted since.
pub(crate) fn callers(vendor: &VendorServer, since: Timestamp) -> BTreeSet<u64> {
    let calls = vendor.calls();
    let accepted = calls.iter().filter(|call| call.at >= since && call.outcome == Outcome::Accepted);
    accepted.map(|call| call.tokens).collect()
}

/// What the store knows about the rate.
pub(crate) async fn learned(config: &str) -> LearnedRate {
    limiter(config).feedback("vendor", Feedback::default()).await.unwrap().rate.unwrap()
}
