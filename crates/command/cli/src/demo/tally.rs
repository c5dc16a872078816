//! The vendor's counts: by minute, by worker and by document.

use std::collections::BTreeMap;

/// The most minutes kept.
const MINUTES_MAX: usize = 4_096;
/// The most worker processes counted apart.
const WORKERS_MAX: usize = 1_024;

/// Calls in a minute, and how many were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// By process id.
    workers: BTreeMap<u32, u64>,
}

impl Tally {
    /// Counts a call in this minute. Returns whether it is within the limit.
    pub(super) fn admit(&mut self, minute: u64, worker: u32, limit: u64) -> bool {
        let count = self.minutes.entry(minute).or_default();
        let admitted = count.served() < limit;
        count.calls += 1;
        count.refusals += u64::from(!admitted);
        if self.workers.len() < WORKERS_MAX || self.workers.contains_key(&worker) {
            *self.workers.entry(worker).or_default() += 1;
        }
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

    /// Every worker that called, by its process id, with its calls.
    pub(super) fn workers(&self) -> impl Iterator<Item = (u32, u64)> {
        self.workers.iter().map(|(&worker, &calls)| (worker, calls))
    }
}

/// The calls that were served, by stage and number of the document. At most two entries a document.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedCalls(BTreeMap<(usize, u64), u64>);

impl ServedCalls {
    pub(super) fn add(&mut self, stage: usize, document: u64) {
        *self.0.entry((stage, document)).or_default() += 1;
    }

    pub(super) fn of(&self, stage: usize, document: u64) -> u64 {
        self.0.get(&(stage, document)).copied().unwrap_or_default()
    }
}
