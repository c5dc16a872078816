//! The vendor's counts, by minute and by worker.

use std::collections::BTreeMap;

use super::WORKERS_MAX;

/// The most minutes kept; a demo has at most 62 unless the machine's date changes.
const MINUTES_MAX: usize = 128;
/// The highest worker number: all workers and one replacement.
pub(super) const NUMBER_MAX: usize = WORKERS_MAX + 1;

/// Calls in a minute, and how many were refused.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) calls: u64,
    pub(super) refusals: u64,
}

impl Count {
    pub(super) fn served(self) -> u64 {
        self.calls - self.refusals
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, refusals: self.refusals + other.refusals }
    }
}

/// The vendor's counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    minutes: BTreeMap<u64, Count>,
    workers: BTreeMap<usize, u64>,
}

impl Tally {
    /// Counts a call in this minute. Returns whether it is within the limit.
    pub(super) fn admit(&mut self, minute: u64, worker: usize, limit: u64) -> bool {
        let count = self.minutes.entry(minute).or_default();
        let admitted = count.served() < limit;
        count.calls += 1;
        count.refusals += u64::from(!admitted);
        *self.workers.entry(worker.min(NUMBER_MAX)).or_default() += 1;
        if self.minutes.len() > MINUTES_MAX {
            self.minutes.pop_first();
        }
        admitted
    }

    pub(super) fn minute(&self, minute: u64) -> Count {
        self.minutes.get(&minute).copied().unwrap_or_default()
    }

    /// Every minute with calls, in order.
    pub(super) fn minutes(&self) -> impl Iterator<Item = (u64, Count)> {
        self.minutes.iter().map(|(&minute, &count)| (minute, count))
    }

    pub(super) fn all(&self) -> Count {
        self.minutes.values().fold(Count::default(), |sum, &count| sum.plus(count))
    }

    /// Calls of this worker.
    pub(super) fn calls_of(&self, worker: usize) -> u64 {
        self.workers.get(&worker).copied().unwrap_or_default()
    }
}
