//! Backoff between resends: exponential, with jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first backoff; each further one doubles.
const FIRST: Duration = Duration::from_millis(10);

/// The longest backoff.
const LONGEST: Duration = Duration::from_secs(1);

/// Computes the backoff between attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Seeded by the operating system, like the standard library's hasher.
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    /// The backoff after this many failed attempts: a random part from half to all of the doubled value.
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
    fn backoff_grows_varies_and_is_capped() {
        let mut backoff = Backoff::default();
        for (attempts, most) in [(1, 10), (2, 20), (3, 40), (7, 640), (8, 1_000), (40, 1_000)] {
            let waits: Vec<Duration> = (0..50).map(|_| backoff.after(attempts)).collect();
            let bounds = Duration::from_millis(most / 2)..=Duration::from_millis(most);
            assert!(waits.iter().all(|wait| bounds.contains(wait)), "{attempts}: {waits:?}");
            assert!(waits.iter().any(|wait| wait != &waits[0]));
        }
    }
}
