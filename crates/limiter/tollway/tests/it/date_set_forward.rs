//! The machine's date is set forward while a process holds permits and leases of a state file. The store is in another window
//! from then on, and so is the vendor: what was granted in the old one must not go out in the new one. A1, I1.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use tollway::core::Lease;
use tollway::{Clock, Durations, Limiter, Policy, Span, Timestamp};
use tollway_memory::FileStore;
use tollway_testkit::MachineClock;

const NOON: Timestamp = Timestamp::from_secs(1_800_000_000 - 1_800_000_000 % 86_400 + 43_200);

struct Lab {
    _folder: tempfile::TempDir,
    machine: Arc<MachineClock>,
    limiter: Limiter,
}

/// Three calls a minute, of which the first tenth of a second and the last are not used.
fn lab(policy: Policy) -> Lab {
    let folder = tempfile::tempdir().unwrap();
    let machine = Arc::new(MachineClock::at(NOON.plus(Span::from_secs(10))));
    let store = FileStore::open(folder.path().join("state"), machine.clone()).unwrap();
    let limiter = Limiter::builder().with_policy(policy).unwrap().store(Arc::new(store)).build();
    Lab { _folder: folder, machine, limiter }
}

fn vendor() -> Policy {
    Policy::new("vendor", ["3 / minute"]).unwrap().with_edge(Span::from_millis(100))
}

async fn used(limiter: &Limiter) -> u64 {
    limiter.usage("vendor").await.unwrap().limits[0].used
}

#[tokio::test]
async fn a_permit_of_the_old_window_takes_again() {
    let lab = lab(vendor());
    let mut permit = lab.limiter.take("vendor").await.unwrap();
    let first = permit.id();
    permit.begin().await.unwrap();
    assert_eq!(permit.id(), first, "free while its window lasts");
    lab.machine.set_date(lab.machine.now().plus(Span::from_mins(2)));
    permit.begin().await.unwrap();
    assert_ne!(permit.id(), first);
    assert_eq!(used(&lab.limiter).await, 1, "the new window counts the call");
}

#[tokio::test]
async fn a_lease_of_the_old_window_ends() {
    let lab = lab(Policy::new("vendor", ["1000 / minute"]).unwrap().with_lease(Lease::On));
    for _ in 0..20 {
        drop(lab.limiter.take("vendor").await.unwrap());
        lab.machine.advance(Span::from_millis(10));
    }
    lab.machine.set_date(lab.machine.now().plus(Span::from_mins(2)));
    for calls in 1..=5 {
        let mut permit = lab.limiter.take("vendor").max_wait(1.seconds()).await.unwrap();
        permit.begin().await.unwrap();
        assert!(used(&lab.limiter).await >= calls, "call {calls} is counted in the new window");
    }
}
