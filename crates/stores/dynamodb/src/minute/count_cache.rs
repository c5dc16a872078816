//! A cache of the counts in the last replies.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollway_core::{Span, Timestamp};

use super::counter::Counter;

/// How many counters are cached. There are as many as api types, and those are few; others are read again.
const COUNTERS_MAX: usize = 1_024;

/// A denial may be answered from a count that is not older.
pub(super) const RECENT: Span = Span::from_secs(1);

/// The counts in the last replies.
#[derive(Debug, Default)]
pub(super) struct CountCache {
    counts: Mutex<HashMap<Counter, (u64, Timestamp)>>,
}

impl CountCache {
    /// The last count, and when it was read.
    pub(super) fn of(&self, counter: &Counter) -> Option<(u64, Timestamp)> {
        self.counts().get(counter).copied()
    }

    /// Notes a count that was just read.
    pub(super) fn note(&self, counter: &Counter, count: u64, now: Timestamp) {
        let mut counts = self.counts();
        if counts.len() >= COUNTERS_MAX && !counts.contains_key(counter) {
            counts.retain(|counter, _| counter.end() > now);
        }
        if counts.len() >= COUNTERS_MAX {
            counts.clear();
        }
        counts.insert(counter.clone(), (count, now));
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Counter, (u64, Timestamp)>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
