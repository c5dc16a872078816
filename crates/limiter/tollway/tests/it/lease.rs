//! Leases (B2): units taken ahead, spent in process; the sum never exceeds the limit, and what is left goes back.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollway::core::{Answer, Lease, Operation, Settings};
use tollway::{Limiter, Policy, Settled, Span, Store, Timestamp};
use tollway_memory::FileStore;
use tollway_testkit::ManualClock;

/// Counts the calls to the store.
struct Counted(FileStore, AtomicU64);

impl Store for Counted {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        None
    }
}

struct Process {
    limiter: Limiter,
    store: Arc<Counted>,
}

impl Process {
    fn new(path: &Path, clock: &Arc<ManualClock>, limits: &[&str]) -> Self {
        let store = Arc::new(Counted(FileStore::open(path, clock.clone()).unwrap(), AtomicU64::new(0)));
        let policy = Policy::new("api", limits.iter().copied()).unwrap().with_lease(Lease::On);
        let builder = Limiter::builder().with_policy(policy).unwrap();
        let limiter = builder.store(store.clone()).clock(clock.clone()).build();
        Self { limiter, store }
    }

    fn grants(&self, most: usize) -> usize {
        (0..most).take_while(|_| self.limiter.try_take("api").now().unwrap().is_granted()).count()
    }

    fn used(&self) -> u64 {
        self.limiter.usage("api").now().unwrap().limits[0].used
    }

    fn asked(&self) -> u64 {
        self.store.1.load(Ordering::SeqCst)
    }
}

fn begin() -> (tempfile::TempDir, Arc<ManualClock>) {
    (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(Timestamp::from_secs(6_000_000))))
}

#[test]
fn b2_leases_never_exceed_the_limit_and_waste_nothing() {
    let (folder, clock) = begin();
    let processes: Vec<Process> = (0..4)
        .map(|_| Process::new(&folder.path().join("state"), &clock, &["1000 / minute", "3000 / day"]))
        .collect();
    for (window, all) in [1_000, 1_000, 1_000, 0].into_iter().enumerate() {
        let granted: usize = std::thread::scope(|scope| {
            let spend = |process| scope.spawn(move || Process::grants(process, 5_000));
            let running: Vec<_> = processes.iter().map(spend).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(granted, all, "window {window}");
        clock.advance(Span::from_mins(1));
    }
}

#[test]
fn b2_most_takes_do_not_call_the_store() {
    let (folder, clock) = begin();
    let process = Process::new(&folder.path().join("state"), &clock, &["100000 / minute"]);
    let handle = process.limiter.policy("api").unwrap();
    for _ in 0..50_000 {
        assert!(handle.try_take().now().unwrap().is_granted());
        clock.advance(Span::from_micros(20));
    }
    let asked = process.asked();
    assert!(asked <= 100, "{asked} for 50,000 takes in a second");
}

/// A lease holds at most one second of demand and ends by itself; what is left goes back.
#[test]
fn b2_unspent_units_are_returned() {
    let (folder, clock) = begin();
    let path = folder.path().join("state");
    let (process, other) =
        (Process::new(&path, &clock, &["1000 / minute"]), Process::new(&path, &clock, &["1000 / minute"]));
    assert_eq!(process.grants(10), 10);
    assert!(other.used() > 10, "it holds more than it has spent");
    clock.advance(Span::from_secs(2));
    while other.used() != 10 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(process.grants(20), 20);
    drop(process);
    while other.used() != 30 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_lease_ends_with_its_window() {
    let (folder, clock) = begin();
    let process = Process::new(&folder.path().join("state"), &clock, &["100 / second"]);
    for _ in 0..50 {
        assert_eq!(process.grants(1_000), 100);
        clock.advance(Span::from_secs(1));
    }
}

#[test]
fn a_leased_permit_is_settled_and_given_back_in_its_lease() {
    let (folder, clock) = begin();
    let limits = ["1000 / minute", "100000 tokens / minute"];
    let process = Process::new(&folder.path().join("state"), &clock, &limits);
    let take = || {
        let taken = process.limiter.try_take("api").cost("tokens", 100).now().unwrap();
        taken.granted().unwrap()
    };
    for _ in 0..20 {
        drop(take());
    }
    let asked = process.asked();
    assert_eq!(take().settle_blocking("tokens", 40).unwrap(), Settled::Whole);
    assert_eq!(take().give_back_blocking().unwrap(), Settled::Whole);
    assert_eq!(take().settle_blocking("tokens", 160).unwrap(), Settled::Whole);
    assert_eq!(process.asked(), asked, "all of it in process");
    // More than the lease holds is debited in the store, whatever room there is.
    assert_eq!(take().settle_blocking("tokens", 90_000).unwrap(), Settled::Whole);
    clock.advance(Span::from_secs(2));
    let spent = || process.limiter.usage("api").now().unwrap().limits[1].used;
    while spent() != 20 * 100 + 40 + 160 + 90_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A ticket may be in many hands: what it took more is debited once, however often that is said.
#[tokio::test]
async fn a_leased_ticket_is_settled_once() {
    let (folder, clock) = begin();
    let process = Process::new(&folder.path().join("state"), &clock, &["100000 tokens / minute"]);
    let limiter = &process.limiter;
    let take = async || limiter.try_take("api").cost("tokens", 100).await.unwrap().granted().unwrap();
    for _ in 0..20 {
        drop(take().await);
    }
    let asked = process.asked();
    let (ticket, unused) = (take().await.into_ticket(), take().await.into_ticket());
    assert_eq!(process.asked(), asked, "both are of the lease");
    let spent = async || limiter.usage("api").await.unwrap().limits[0].used;
    let before = spent().await;
    assert_eq!(ticket.settle(limiter, [("tokens", 500)]).await.unwrap(), Settled::Whole);
    for _ in 0..2 {
        assert_eq!(ticket.settle(limiter, [("tokens", 500)]).await.unwrap(), Settled::Repeated);
        assert_eq!(unused.give_back(limiter).await.unwrap(), Settled::Dropped, "nothing came back");
    }
    assert_eq!(spent().await, before + 400);
}

#[test]
fn a_leased_permit_that_begins_too_late_takes_again() {
    let (folder, clock) = begin();
    let process = Process::new(&folder.path().join("state"), &clock, &["100 / second"]);
    assert_eq!(process.grants(50), 50);
    let mut permit = process.limiter.try_take("api").now().unwrap().granted().unwrap();
    permit.begin_blocking().unwrap();
    clock.advance(Span::from_secs(1));
    assert_eq!(process.used(), 0, "a new window");
    permit.begin_blocking().unwrap();
    assert_eq!(process.used(), 1);
}

#[test]
fn takes_that_cannot_be_leased_go_to_the_store() {
    let (folder, clock) = begin();
    let process = Process::new(&folder.path().join("state"), &clock, &["1000 / minute"]);
    assert_eq!(process.grants(100), 100);
    let asked = process.asked();
    assert!(process.limiter.try_take("api").id("job-1").now().unwrap().is_granted());
    assert!(
        !process
            .limiter
            .try_take("api")
            .with_readings()
            .now()
            .unwrap()
            .granted()
            .unwrap()
            .decision()
            .charges
            .is_empty()
    );
    assert_eq!(process.asked(), asked + 2);
    let error = process.limiter.try_take("api").cost("requests", 1_001).now().unwrap_err();
    assert!(error.to_string().contains("can never be granted"), "{error}");
}

/// Only windows can be leased: a take from a bucket always calls the store.
#[test]
fn a_bucket_is_never_leased() {
    let (folder, clock) = begin();
    let process = Process::new(&folder.path().join("state"), &clock, &["1000 / minute bucket"]);
    assert_eq!(process.grants(50), 50);
    assert_eq!(process.asked(), 50);
}
