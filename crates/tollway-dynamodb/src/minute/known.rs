//! What is known of counters without asking: what the last reply said.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollway_core::{Span, Timestamp};

use super::counter::Counter;

/// How many counters are remembered. There are as many as api types, and those are few; the rest are asked for again.
const COUNTERS_MAX: usize = 1_024;

/// A denial may be answered from a count that is not older.
pub(super) const RECENT: Span = Span::from_secs(1);

/// The counts that were last seen.
#[derive(Debug, Default)]
pub(super) struct Known {
    counts: Mutex<HashMap<Counter, (u64, Timestamp)>>,
}

impl Known {
    /// The count that was last seen, and when.
    pub(super) fn of(&self, counter: &Counter) -> Option<(u64, Timestamp)> {
        self.counts().get(counter).copied()
    }

    /// Notes what was just seen.
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
