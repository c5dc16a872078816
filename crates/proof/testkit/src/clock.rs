//! A clock that the test sets.

use std::sync::atomic::{AtomicU64, Ordering};

use tollway_core::{Clock, Span, Timestamp};

/// A clock that the test sets. It may also go back, as system clocks do.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(AtomicU64::new(now.as_micros()))
    }

    /// Shows `now` from now on, even if that is earlier.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves on by `span`.
    pub fn advance(&self, span: Span) {
        self.0.fetch_add(span.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_moves_only_when_set() {
        let clock = ManualClock::at(Timestamp::from_secs(10));
        clock.advance(Span::from_secs(5));
        assert_eq!(clock.now(), Timestamp::from_secs(15));
        clock.set(Timestamp::from_secs(3));
        assert_eq!(clock.now(), Timestamp::from_secs(3));
    }
}
