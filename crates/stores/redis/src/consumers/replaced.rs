//! The log of counters that held no count and were replaced.

use std::sync::{Mutex, PoisonError};

use tollway_core::{Span, Timestamp};

/// The shortest interval between two warnings: another program may break one counter after the other.
const LOGGED_EVERY: Span = Span::from_secs(60);

/// Logs replaced counters, one line a minute.
#[derive(Default)]
pub(super) struct ReplacedLog(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    logged_at: Option<Timestamp>,
    /// How many counters were replaced since then.
    unlogged: u64,
}

impl ReplacedLog {
    pub(super) fn note(&self, key: &str, now: Timestamp) {
        let due = self.0.lock().unwrap_or_else(PoisonError::into_inner).is_due(now);
        if let Some(others) = due {
            tracing::warn!(
                ?key,
                others,
                "a counter in Redis held no count and was replaced by a new one; another program wrote it"
            );
        }
    }
}

impl Recent {
    /// If a line is due, how many replaced counters it stands for besides its own.
    fn is_due(&mut self, now: Timestamp) -> Option<u64> {
        // A clock that was set back makes a line due.
        if self.logged_at.is_some_and(|at| at <= now && now.since(at) < LOGGED_EVERY) {
            self.unlogged = self.unlogged.saturating_add(1);
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_stands_for_all() {
        let mut recent = Recent::default();
        let due = [0, 1, 59, 60, 61, 200].map(|at| recent.is_due(Timestamp::from_secs(1_000 + at)));
        assert_eq!(due, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!(recent.is_due(Timestamp::from_secs(5)), Some(0), "a clock that was set back");
    }
}
