//! Histograms of durations and counts, and the metrics of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets of a [`Histogram`], in milliseconds; one more bucket holds everything slower.
pub const LATENCY_BOUNDS_MS: [u64; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; LATENCY_BOUNDS_MS.len() + 1],
    sum_micros: AtomicU64,
}

/// A snapshot of a [`Histogram`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The count of each bucket, in the order of [`LATENCY_BOUNDS_MS`], then the overflow bucket.
    pub counts: [u64; LATENCY_BOUNDS_MS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
}

impl Histogram {
    /// Records a duration.
    pub fn note(&self, took: Duration) {
        let millis = took.as_nanos().div_ceil(1_000_000);
        let bucket = LATENCY_BOUNDS_MS.partition_point(|bound| u128::from(*bound) < millis);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// A snapshot of everything recorded so far.
    pub fn read(&self) -> Latencies {
        Latencies {
            counts: self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)),
            sum: Duration::from_micros(self.sum_micros.load(Ordering::Relaxed)),
        }
    }
}

/// The upper bounds of the buckets of a [`Tally`]; one more bucket holds everything larger.
pub const TALLY_BOUNDS: [u64; 8] = [0, 1, 2, 3, 5, 10, 20, 50];

/// A histogram of counts.
#[derive(Debug, Default)]
pub struct Tally {
    buckets: [AtomicU64; TALLY_BOUNDS.len() + 1],
    sum: AtomicU64,
}

/// A snapshot of a [`Tally`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// How many fell into each bucket, in the order of [`TALLY_BOUNDS`], and beyond.
    pub counts: [u64; TALLY_BOUNDS.len() + 1],
    /// The sum of all counts.
    pub sum: u64,
}

impl Tally {
    /// Records a count.
    pub fn note(&self, many: u64) {
        let bucket = TALLY_BOUNDS.partition_point(|bound| *bound < many);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(many, Ordering::Relaxed);
    }

    /// A snapshot of everything recorded so far.
    pub fn read(&self) -> Tallies {
        Tallies {
            counts: self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// The metrics of a store. Names are label values: `reads`, `conditional_failures`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Counters since the store was opened.
    pub counts: Vec<(&'static str, u64)>,
    /// Durations.
    pub latencies: Vec<(&'static str, Latencies)>,
    /// Counts per call.
    pub tallies: Vec<(&'static str, Tallies)>,
    /// How much of the memory that it may use it uses, in millionths, if it has such a bound and says so.
    pub memory_used: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_falls_into_the_bucket_of_its_upper_bound() {
        let histogram = Histogram::default();
        for micros in [0, 1_000, 1_001, 50_000, 50_001, 2_000_001, 99_000_000] {
            histogram.note(Duration::from_micros(micros));
        }
        let Latencies { counts, sum } = histogram.read();
        assert_eq!(counts, [2, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 2]);
        assert_eq!(sum, Duration::from_micros(101_102_003));
    }

    #[test]
    fn each_number_falls_into_the_bucket_of_its_upper_bound() {
        let tally = Tally::default();
        for many in [0, 0, 1, 3, 4, 5, 50, 51, 1_000] {
            tally.note(many);
        }
        assert_eq!(tally.read(), Tallies { counts: [2, 1, 0, 1, 2, 0, 0, 1, 2], sum: 1_114 });
    }
}
