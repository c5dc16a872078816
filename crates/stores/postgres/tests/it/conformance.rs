//! The store under the suite that every store must pass, on a real Postgres.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{fresh_schema, store_with_clock};
use tollway_core::{Answer, Operation, Store, Timestamp};
use tollway_postgres::PostgresStore;
use tollway_testkit::conformance::{Effort, run_with};
use tollway_testkit::{ManualClock, Rig};

/// New tables for each scenario: the suite's time restarts with each, and the store's never goes back behind accounts
/// that it has forgotten.
#[derive(Default)]
struct PostgresRig {
    clock: Arc<ManualClock>,
}

impl Rig for PostgresRig {
    fn store(&self) -> Arc<dyn Store> {
        let schema = fresh_schema();
        let open = || store_with_clock(&schema, self.clock.clone());
        Arc::new(TwoStores { stores: [open(), open()], turn: AtomicUsize::new(0) })
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}

/// Two processes, as far as Postgres can tell, that take turns.
struct TwoStores {
    stores: [PostgresStore; 2],
    turn: AtomicUsize,
}

impl Store for TwoStores {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.stores[self.turn.fetch_add(1, Ordering::SeqCst) % 2].apply(batch)
    }
}

#[test]
fn the_postgres_store_conforms() {
    let effort = Effort { sequences: 500, rounds: 3, ..Effort::default() };
    let report = run_with(&PostgresRig::default(), effort).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.scenarios > 50 && report.sequences == 500 && report.rounds > 0, "{report}");
}
