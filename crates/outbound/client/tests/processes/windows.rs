//! Sixteen processes fill a vendor's windows, and no call is refused.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use tollway_core::{Span, Timestamp};
use tollway_testkit::servers::RedisServer;
use tollway_vendor::Outcome;
use tollway_vendor::server::VendorServer;

use crate::fleet::Fleet;
use crate::{config, now, sleep_until, vendor};

pub(crate) const WORKERS: usize = 16;
pub(crate) const WINDOW: Span = Span::from_secs(15);
/// The vendor's limit.
pub(crate) const LIMIT: &str = "50 requests / 15 seconds";
pub(crate) const LATENCY: Span = Span::from_millis(100);

/// Of what the policy allows, the processes get at least this share, in percent.
const SHARE: u64 = 97;

/// Calls that a short watch may miss beside: the place of the killed process, and one at its end.
const LOST: u64 = 2;

/// The windows that are watched.
fn windows() -> u64 {
    std::env::var("TOLLWAY_WINDOWS").map_or(2, |windows| windows.parse().unwrap())
}

/// B5: the policy has the vendor's windows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_processes_fill_calendar_windows_without_a_refusal() {
    fills("limits = [\"50 requests / 15 seconds\"]", Span::ZERO, 50).await;
}

/// B5: the vendor's windows begin at a time that no client knows. Paced calls at 98 % of its rate fit any of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_processes_fill_windows_of_any_phase_without_a_refusal() {
    let phase = Span::from_micros(RandomState::new().hash_one(0) % WINDOW.as_micros());
    fills("limits = [\"49 requests / 15 seconds paced\"]", phase, 49).await;
}

/// One process is killed on the way.
async fn fills(keys: &str, phase: Span, allowed: u64) {
    let redis = RedisServer::start();
    let vendor = vendor(LIMIT, phase, LATENCY).await;
    let mut fleet = Fleet::start(WORKERS, &config(&redis.url(), &vendor, keys));
    // The first window is too late to be filled, and processes start in it.
    let from = next_window(now(), phase);
    let to = from.plus(WINDOW.times(windows()));
    // In the middle of a window.
    sleep_until(from.plus(WINDOW.times(windows() / 2)).plus(Span::from_secs(7))).await;
    fleet.kill_one();
    sleep_until(to).await;
    let accepted = u64::try_from(vendor.count_between(Outcome::Accepted, from, to)).unwrap();
    let (by_window, refused) = (by_window(&vendor, phase), vendor.counts().refused);
    let report = fleet.end();
    println!(
        "{keys}, phase {phase:?}: {accepted} of {} accepted, {refused} refused, {by_window:?}",
        allowed * windows()
    );
    assert_eq!((refused, report.incidents, report.failed), (0, 0, 0), "{by_window:?}");
    let lost = if windows() < 12 { LOST } else { 0 };
    assert!((accepted + lost) * 100 >= allowed * windows() * SHARE, "{accepted} calls: {by_window:?}");
}

/// When the vendor's next window begins.
pub(crate) fn next_window(now: Timestamp, phase: Span) -> Timestamp {
    let into = (now.as_micros() - phase.as_micros()) % WINDOW.as_micros();
    now.plus(Span::from_micros(WINDOW.as_micros() - into))
}

/// Accepted calls by window of the vendor, the oldest first.
pub(crate) fn by_window(vendor: &VendorServer, phase: Span) -> Vec<u64> {
    let mut windows = BTreeMap::<Timestamp, u64>::new();
    for call in vendor.calls().iter().filter(|call| call.outcome == Outcome::Accepted) {
        *windows.entry(next_window(call.at, phase)).or_default() += 1;
    }
    windows.into_values().collect()
}
