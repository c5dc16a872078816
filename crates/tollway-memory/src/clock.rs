//! The machine's clocks. The only place in Tollway that reads them.
#![allow(clippy::disallowed_methods, reason = "this module is where the machine's clock comes in")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tollway_core::{Clock, Timestamp};

/// How long the processor's counter is trusted before it is set by the system's clock again: the two drift apart by some
/// microseconds in this time, and by seconds in a day.
const TRUSTED_NANOS: u64 = 100_000_000;

/// Two clocks that were read within this time were read at once.
const AT_ONCE_NANOS: u64 = 20_000;

/// How often they are read for that.
const TRIES_MAX: usize = 4;

/// Wall time at the start, and from then on the time that passes: it follows no step of the machine's date. Each setting
/// may take it back by a few microseconds, which lines do not notice (I7).
///
/// Read from the processor's counter, which costs a third of the system's clock, and set by that ten times a second.
#[derive(Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    started_raw: u64,
    started: Instant,
    started_at: Timestamp,
    /// When the counter began to count, as of its last setting: nanoseconds since the epoch, which fit for five centuries.
    counts_from: AtomicU64,
    /// The counted nanoseconds at which it is due to be set again.
    next_setting: AtomicU64,
}

impl SystemClock {
    /// Anchors the clock to wall time now.
    pub fn new() -> Self {
        let (counter, started_at) = (quanta::Clock::new(), wall_time());
        Self {
            started_raw: counter.raw(),
            started: Instant::now(),
            started_at,
            counter,
            // Right from the first: of two threads that ask at once, one may see that the clock was set and not yet to what.
            counts_from: AtomicU64::new(nanos(started_at)),
            next_setting: AtomicU64::new(0),
        }
    }

    #[cold]
    fn set(&self) {
        let both = best_of(|| {
            let before = self.counted();
            let elapsed = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Both { before, elapsed, after: self.counted() }
        });
        let now = nanos(self.started_at).saturating_add(both.elapsed);
        self.counts_from.store(now.saturating_sub(both.after), Ordering::Relaxed);
        self.next_setting.store(both.after.saturating_add(TRUSTED_NANOS), Ordering::Relaxed);
    }

    /// Nanoseconds since the start, by the processor's counter.
    #[inline]
    fn counted(&self) -> u64 {
        self.counter.delta_as_nanos(self.started_raw, self.counter.raw())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let counted = self.counted();
        if counted >= self.next_setting.load(Ordering::Relaxed) {
            self.set();
        }
        Timestamp::from_micros(counted.saturating_add(self.counts_from.load(Ordering::Relaxed)) / 1_000)
    }
}

/// A reading of the system's clock, and of the counter before and after it.
#[derive(Clone, Copy)]
struct Both {
    before: u64,
    elapsed: u64,
    after: u64,
}

impl Both {
    fn took(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// The reading that took the least. A thread that loses its core between the two clocks would set them apart by as long
/// as it was away, for all threads.
fn best_of(mut read: impl FnMut() -> Both) -> Both {
    let mut best = read();
    for _ in 1..TRIES_MAX {
        if best.took() <= AT_ONCE_NANOS {
            break;
        }
        let next = read();
        if next.took() < best.took() {
            best = next;
        }
    }
    best
}

/// Wall time as the machine has it, the same in every process; it may step.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        wall_time()
    }
}

fn nanos(time: Timestamp) -> u64 {
    time.as_micros().saturating_mul(1_000)
}

/// A machine whose date lies before 1970 is at the epoch.
fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that was away for 50 ms between its readings does not set the clock 50 ms ahead.
    #[test]
    fn it_is_set_by_a_reading_that_nothing_came_between() {
        let mut readings = [(1_000, 50_001_000), (50_002_000, 50_002_100), (0, 0)].into_iter();
        let both = best_of(|| {
            let (before, after) = readings.next().unwrap_or_default();
            Both { before, elapsed: after, after }
        });
        assert_eq!((both.before, both.after), (50_002_000, 50_002_100));
        assert_eq!(readings.len(), 1, "it is content with that one");
        let mut away = 0;
        let both = best_of(|| {
            away += 1;
            Both { before: 0, elapsed: 0, after: 1_000_000 * (5 - away) }
        });
        assert_eq!((both.after, away), (1_000_000, 4), "the best of a few, if none is good");
    }

    /// A clock that counted from the epoch until somebody had set it would give new subjects windows of 1970.
    #[test]
    fn it_counts_from_now_before_it_was_first_set() {
        let before = wall_time();
        let clock = SystemClock::new();
        let counts_from = Timestamp::from_micros(clock.counts_from.load(Ordering::Relaxed) / 1_000);
        assert!(before <= counts_from && counts_from <= wall_time());
    }
}
