//! The machine's clocks. The only place in Tollway that reads them.
#![allow(clippy::disallowed_methods, reason = "the only module that reads the system's clocks")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tollway_core::{Clock, Timestamp, Uptime};

/// How long the processor's counter is used before it is synchronized with the system clock again. They drift apart by
/// some microseconds in this time, and by seconds in a day.
const TRUSTED_NANOS: u64 = 100_000_000;

/// Two clock readings within this time count as simultaneous.
const AT_ONCE_NANOS: u64 = 20_000;

/// The most attempts to read both clocks simultaneously.
const TRIES_MAX: usize = 4;

/// Wall time at the start plus the time elapsed since: it does not follow steps of the system's date. Each synchronization
/// may set it back by a few microseconds, which accounts tolerate.
///
/// It reads the processor's counter, which costs a third of the system clock, and synchronizes ten times a second.
#[derive(Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    started_raw: u64,
    started: Instant,
    started_at: Timestamp,
    /// The wall time of counter zero, as of the last synchronization, in nanoseconds since the epoch.
    counts_from: AtomicU64,
    /// The counter value, in nanoseconds, at which the next synchronization is due.
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
            // Valid from the start: a thread may see a new `next_setting` before the new `counts_from`.
            counts_from: AtomicU64::new(nanos(started_at)),
            next_setting: AtomicU64::new(0),
        }
    }

    #[cold]
    fn set(&self) {
        let pair = best_of(|| {
            let before = self.counted();
            let elapsed = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            ClockPair { before, elapsed, after: self.counted() }
        });
        let now = nanos(self.started_at).saturating_add(pair.elapsed);
        self.counts_from.store(now.saturating_sub(pair.after), Ordering::Relaxed);
        self.next_setting.store(pair.after.saturating_add(TRUSTED_NANOS), Ordering::Relaxed);
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

/// A reading of the system clock, and of the counter before and after it.
#[derive(Clone, Copy)]
struct ClockPair {
    before: u64,
    elapsed: u64,
    after: u64,
}

impl ClockPair {
    fn took(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// The fastest of a few readings. A thread that is descheduled between the two clocks would set the clock wrong for all
/// threads.
fn best_of(mut read: impl FnMut() -> ClockPair) -> ClockPair {
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

/// The system's wall time, the same in every process. It may step. Its uptime does not, on Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        wall_time()
    }

    fn uptime(&self) -> Option<Uptime> {
        uptime()
    }
}

/// The boot clock, which counts suspended time, too.
#[cfg(target_os = "linux")]
fn uptime() -> Option<Uptime> {
    use rustix::time::{ClockId, clock_gettime};
    use tollway_core::{BootId, Span};

    static BOOT: std::sync::LazyLock<Option<BootId>> = std::sync::LazyLock::new(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        id.trim().parse().ok()
    });
    let boot = (*BOOT)?;
    let reading = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(reading.tv_sec).ok()?;
    let micros = u64::try_from(reading.tv_nsec).ok()? / 1_000;
    Some(Uptime {
        boot,
        since_boot: Span::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros)),
    })
}

/// Elsewhere there is no id that says which boot a reading is of.
#[cfg(not(target_os = "linux"))]
fn uptime() -> Option<Uptime> {
    None
}

fn nanos(time: Timestamp) -> u64 {
    time.as_micros().saturating_mul(1_000)
}

/// A date before 1970 counts as the epoch.
fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread descheduled for 50 ms between its readings does not set the clock 50 ms ahead.
    #[test]
    fn interrupted_reading_is_not_used() {
        let mut readings = [(1_000, 50_001_000), (50_002_000, 50_002_100), (0, 0)].into_iter();
        let pair = best_of(|| {
            let (before, after) = readings.next().unwrap_or_default();
            ClockPair { before, elapsed: after, after }
        });
        assert_eq!((pair.before, pair.after), (50_002_000, 50_002_100));
        assert_eq!(readings.len(), 1, "no more readings than needed");
        let mut away = 0;
        let pair = best_of(|| {
            away += 1;
            ClockPair { before: 0, elapsed: 0, after: 1_000_000 * (5 - away) }
        });
        assert_eq!((pair.after, away), (1_000_000, 4), "the fastest, if none is fast enough");
    }

    /// A clock that starts at the epoch would give new subjects windows of 1970.
    #[test]
    fn clock_is_right_before_its_first_synchronization() {
        let before = wall_time();
        let clock = SystemClock::new();
        let counts_from = Timestamp::from_micros(clock.counts_from.load(Ordering::Relaxed) / 1_000);
        assert!(before <= counts_from && counts_from <= wall_time());
    }
}
