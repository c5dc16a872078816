//! Log lines that callers can cause at will: each at most once a minute.

use std::sync::atomic::{AtomicU64, Ordering};

use tollway::Limiter;

const MINUTE_MICROS: u64 = 60_000_000;

/// When something was last logged.
#[derive(Default)]
pub(crate) struct OnceAMinute(AtomicU64);

impl OnceAMinute {
    /// Whether it may be logged again. Of several threads that ask at once, one may.
    pub(crate) fn is_due(&self, limiter: &Limiter) -> bool {
        let now = limiter.clock().now().as_micros().max(1);
        let last = self.0.load(Ordering::Relaxed);
        is_minute_over(last, now)
            && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether nothing was logged in the last minute.
    pub(crate) fn is_over(&self, limiter: &Limiter) -> bool {
        is_minute_over(self.0.load(Ordering::Relaxed), limiter.clock().now().as_micros())
    }
}

/// A clock that was set back delays a line by a minute at most.
fn is_minute_over(last: u64, now: u64) -> bool {
    last == 0 || now.abs_diff(last) >= MINUTE_MICROS
}
