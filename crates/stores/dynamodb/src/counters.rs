//! Counters of what the store did, for export as metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{Histogram, StoreFigures, Tally};

/// What the store did so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Consistent reads sent.
    pub reads: AtomicU64,
    /// Writes sent, failed ones counted; a transaction is one.
    pub writes: AtomicU64,
    /// Writes that found another version than the one they were decided on.
    pub conditional_failures: AtomicU64,
    /// Writes that met a transaction on the same item.
    pub conflicts: AtomicU64,
    /// Requests that were throttled.
    pub throttles: AtomicU64,
    /// How often a call was decided again, after a race or a conflict, or looked up after an unclear reply.
    pub retries: AtomicU64,
    /// How long reads took.
    pub read_latency: Histogram,
    /// How long writes took.
    pub write_latency: Histogram,
    /// How many writes of each call found another version.
    pub conditional_failures_per_call: Tally,
    /// How often each call was decided once more.
    pub retries_per_call: Tally,
}

impl Counters {
    /// All of it, with names.
    pub fn figures(&self) -> StoreFigures {
        let counts = [
            ("reads", &self.reads),
            ("writes", &self.writes),
            ("conditional_failures", &self.conditional_failures),
            ("conflicts", &self.conflicts),
            ("throttles", &self.throttles),
            ("retries", &self.retries),
        ];
        StoreFigures {
            counts: counts.map(|(name, count)| (name, count.load(Ordering::Relaxed))).into(),
            latencies: vec![("read", self.read_latency.read()), ("write", self.write_latency.read())],
            tallies: vec![
                ("conditional_failures", self.conditional_failures_per_call.read()),
                ("retries", self.retries_per_call.read()),
            ],
            ..StoreFigures::default()
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What one call took beyond its first try; noted when it ends, however it ends.
pub(crate) struct Effort<'c> {
    counters: &'c Counters,
    lost: u64,
    retries: u64,
}

impl<'c> Effort<'c> {
    pub(crate) fn new(counters: &'c Counters) -> Self {
        Self { counters, lost: 0, retries: 0 }
    }

    /// A write found another version.
    pub(crate) fn lost(&mut self) {
        self.lost += 1;
    }

    /// It is decided again, or looked up.
    pub(crate) fn retried(&mut self) {
        self.retries += 1;
        count(&self.counters.retries);
    }
}

impl Drop for Effort<'_> {
    fn drop(&mut self) {
        self.counters.conditional_failures_per_call.note(self.lost);
        self.counters.retries_per_call.note(self.retries);
    }
}
