//! The clock of a replay: it shows the time of the call that is replayed.

use std::sync::atomic::{AtomicU64, Ordering};

use tollway::{Clock, Timestamp};

/// Shows what it was set to.
#[derive(Debug, Default)]
pub(super) struct LogClock(AtomicU64);

impl LogClock {
    pub(super) fn set(&self, at: Timestamp) {
        self.0.store(at.as_micros(), Ordering::Relaxed);
    }
}

impl Clock for LogClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}
