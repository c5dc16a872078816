//! A store under test, with its clock in the test's hand.

use std::sync::Arc;

use tollway_core::{Clock, Store, Timestamp};

use crate::ManualClock;

/// A store under test.
///
/// One rig serves the whole suite: every scenario has policies of its own, so nothing need be flushed between them.
/// Time is set anew for each and may then be earlier than it was; the accounts of one scenario never meet another's.
pub trait Rig: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// What the store shall take for its time from here on.
    fn set_time(&self, now: Timestamp);
}

/// A rig for stores that are given a clock.
pub struct ManualRig {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl ManualRig {
    /// A rig for the store that `make` makes with a clock.
    pub fn new<S: Store>(make: impl FnOnce(Arc<dyn Clock>) -> S) -> Self {
        let clock = Arc::new(ManualClock::default());
        Self { store: Arc::new(make(clock.clone())), clock }
    }
}

impl Rig for ManualRig {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}
