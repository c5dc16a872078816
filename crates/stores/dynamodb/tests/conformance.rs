//! The store under the suite that every store must pass, on a DynamoDB.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "it/support.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{fresh_table, store_with_clock, url_without_ttl};
use tollway_core::{Answer, Operation, Store, Timestamp};
use tollway_dynamodb::DynamoStore;
use tollway_testkit::conformance::{Effort, run_with};
use tollway_testkit::{ManualClock, Rig};

struct DynamoRig {
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
}

impl Rig for DynamoRig {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}

/// Two processes, as far as DynamoDB can tell, that take turns.
struct TwoStores {
    stores: [DynamoStore; 2],
    turn: AtomicUsize,
}

impl Store for TwoStores {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.stores[self.turn.fetch_add(1, Ordering::SeqCst) % 2].apply(batch)
    }
}

fn conforms(make: impl FnOnce(Arc<ManualClock>) -> Arc<dyn Store>) {
    let clock = Arc::new(ManualClock::default());
    let rig = DynamoRig { store: make(Arc::clone(&clock)), clock };
    let effort = Effort { sequences: 500, rounds: 3, ..Effort::default() };
    let report = run_with(&rig, effort).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 50 && report.sequences == 500 && report.rounds > 0, "{report}");
}

/// Its cache is right as long as no other process writes.
#[test]
fn one_process_conforms() {
    conforms(|clock| Arc::new(store_with_clock(&fresh_table(), clock)));
}

/// The suite knows no denial that is a second old: each is read.
#[test]
fn two_processes_conform() {
    let url = format!("{}&denials=0s", url_without_ttl(&fresh_table()));
    conforms(|clock| {
        let open = || DynamoStore::with_clock(&url, clock.clone()).unwrap();
        Arc::new(TwoStores { stores: [open(), open()], turn: AtomicUsize::new(0) })
    });
}
