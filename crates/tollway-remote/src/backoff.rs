//! How long to wait before a call is sent again: longer each time, and never all at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(10);

/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(1);

/// Waits between attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Seeded by the operating system, as the standard library's hasher is.
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    /// The wait after so many failed attempts: between half and all of the doubled one.
    pub(crate) fn after(&mut self, attempts: u32) -> Duration {
        let doubled = FIRST.saturating_mul(1u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX));
        let most = doubled.min(LONGEST);
        self.drawn = self.drawn.wrapping_add(1);
        let half = most / 2;
        let part = u32::try_from(self.random.hash_one(self.drawn) % 1_000).unwrap_or(0);
        half + half * part / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_differ_and_end() {
        let mut backoff = Backoff::default();
        for (attempts, most) in [(1, 10), (2, 20), (3, 40), (7, 640), (8, 1_000), (40, 1_000)] {
            let waits: Vec<Duration> = (0..50).map(|_| backoff.after(attempts)).collect();
            let bounds = Duration::from_millis(most / 2)..=Duration::from_millis(most);
            assert!(waits.iter().all(|wait| bounds.contains(wait)), "{attempts}: {waits:?}");
            assert!(waits.iter().any(|wait| wait != &waits[0]));
        }
    }
}
