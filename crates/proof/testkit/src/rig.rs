//! A store under test, with a manual clock.

use std::sync::Arc;

use tollway_core::{Clock, Store, Timestamp};

use crate::ManualClock;
use crate::conformance::Profile;

/// A store under test.
///
/// One rig serves the whole suite: every scenario has its own policies, so the store need not be emptied between them.
/// Each scenario sets the time, possibly back; scenarios never share accounts.
pub trait Rig: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Sets the store's time.
    fn set_time(&self, now: Timestamp);

    /// What the store promises about takes over several accounts.
    fn profile(&self) -> Profile {
        Profile::Atomic
    }
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
