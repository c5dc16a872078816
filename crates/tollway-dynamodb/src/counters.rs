//! What the store did so far, as plain counters for whoever exports them (G10, G12).

use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{Histogram, StoreFigures};

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
    /// How often something was decided once more, after a race or a conflict, or asked about after an unclear reply.
    pub retries: AtomicU64,
    /// How long reads took.
    pub read_latency: Histogram,
    /// How long writes took.
    pub write_latency: Histogram,
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
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
