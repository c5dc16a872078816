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
        // After the clock was set back, the next line is not delayed by more than a minute.
        let due = last == 0 || now.abs_diff(last) >= MINUTE_MICROS;
        due && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
