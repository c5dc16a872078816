//! The file store passes the conformance suite.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tempfile::TempDir;
use tollway_core::{Answer, Operation, Store, Timestamp};
use tollway_memory::FileStore;
use tollway_testkit::conformance::{Effort, run_with};
use tollway_testkit::{ManualClock, Rig};

/// A new file for each scenario: each scenario restarts the clock, and a file's time never goes back behind the expiry
/// of deleted accounts.
struct FileRig {
    directory: TempDir,
    files: AtomicU64,
    clock: Arc<ManualClock>,
}

impl Rig for FileRig {
    fn store(&self) -> Arc<dyn Store> {
        let name = self.files.fetch_add(1, Ordering::SeqCst).to_string();
        Arc::new(TwoStores::open(self.directory.path().join(name), &self.clock))
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}

/// Two stores on one file that alternate, so that each reads from the file what the other wrote.
struct TwoStores {
    stores: [FileStore; 2],
    turn: AtomicUsize,
}

impl TwoStores {
    fn open(path: PathBuf, clock: &Arc<ManualClock>) -> Self {
        let open = || FileStore::open(&path, clock.clone()).unwrap();
        Self { stores: [open(), open()], turn: AtomicUsize::new(0) }
    }
}

impl Store for TwoStores {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.stores[self.turn.fetch_add(1, Ordering::SeqCst) % 2].apply(batch)
    }
}

#[test]
fn the_file_store_conforms() {
    let directory = tempfile::tempdir().unwrap();
    let rig = FileRig { directory, files: AtomicU64::new(0), clock: Arc::default() };
    let report = run_with(&rig, Effort { sequences: 300, rounds: 2, ..Effort::default() });
    assert!(report.unwrap_or_else(|failure| panic!("{failure}")).scenarios > 50);
}
