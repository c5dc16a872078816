//! Contention between processes that write one item: they take turns.
//!
//! Of several conditional writes on one version one succeeds; the others fail and cost as much. An item lists its recent
//! writers, so every process that loses sees the same list. They write in the order of their names, starting after the last
//! writer, each one write's duration after the one before. The next writer writes at once, on the state that the failed
//! write returned; later ones read again when their turn comes. A turn is not a lock: a writer that has stopped is not
//! waited for, and a collision costs one write.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::writers::Writers;

/// A writer is active if it wrote within this time of the last write.
const ACTIVE_FOR: Duration = Duration::from_secs(1);

/// The longest wait for a turn: callers wait for hundreds of milliseconds at most.
const WAIT_MAX: Duration = Duration::from_millis(150);

/// Bounds of what a write is taken to last.
const WRITE_MICROS: std::ops::RangeInclusive<u64> = 1_000..=25_000;

/// Works out waits from how long writes take.
#[derive(Debug)]
pub(crate) struct Contention {
    write_micros: AtomicU64,
    random: RandomState,
    drawn: AtomicU64,
}

impl Default for Contention {
    fn default() -> Self {
        let write_micros = AtomicU64::new(5_000);
        Self { write_micros, random: RandomState::new(), drawn: AtomicU64::new(0) }
    }
}

impl Contention {
    /// Adds a write's duration to the moving average.
    pub(crate) fn note_write(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let took = took.clamp(*WRITE_MICROS.start(), *WRITE_MICROS.end());
        let mean = self.write_micros.load(Ordering::Relaxed);
        self.write_micros.store((mean * 7 + took) / 8, Ordering::Relaxed);
    }

    /// How long to wait for this writer's turn; zero if it is next.
    pub(crate) fn turn_after(&self, writers: &Writers, me: &str) -> Duration {
        match before(writers, me) {
            0 => Duration::ZERO,
            others => {
                let write = self.write();
                (write * others + self.part_of(write / 2)).min(WAIT_MAX)
            }
        }
    }

    /// A short random wait, so that processes do not retry at the same moment.
    pub(crate) fn jitter(&self) -> Duration {
        self.part_of(self.write() * 2)
    }

    /// How long a write takes.
    pub(crate) fn write(&self) -> Duration {
        Duration::from_micros(self.write_micros.load(Ordering::Relaxed))
    }

    fn part_of(&self, whole: Duration) -> Duration {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let part = u32::try_from(self.random.hash_one(drawn) % 1_000).unwrap_or(0);
        whole * part / 1_000
    }
}

/// How many active writers come between the last one and this one.
fn before(writers: &Writers, me: &str) -> u32 {
    let Some(last) = writers.records.last() else { return 0 };
    let active_from = last.at.saturating_sub(u64::try_from(ACTIVE_FOR.as_millis()).unwrap_or(u64::MAX));
    let active = writers.records.iter().filter(|record| record.at >= active_from && record.writer != me);
    let last = last.writer.as_str();
    let comes_first = |writer: &str| match (last < writer, writer < me, last < me) {
        (after_last, before_me, true) => after_last && before_me,
        // Round the end of the order.
        (after_last, before_me, false) => after_last || before_me,
    };
    let others = active.filter(|record| record.writer != last && comes_first(&record.writer)).count();
    u32::try_from(others).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tollway_core::Timestamp;

    use super::*;

    /// Written by these, in this order, at these milliseconds.
    fn written(by: &[(&str, u64)]) -> Writers {
        let mut writers = Writers::default();
        by.iter().for_each(|(writer, at)| writers.note(writer, 1, 1, Timestamp::from_millis(5_000 + at)));
        writers
    }

    #[test]
    fn turns_go_round() {
        let writers = written(&[("a", 0), ("d", 0), ("b", 0), ("c", 0)]);
        let waits = ["d", "a", "b", "c"].map(|me| before(&writers, me));
        assert_eq!(waits, [0, 1, 2, 3], "after c comes d");
        assert_eq!(before(&writers, "cc"), 0, "a new one has its place, too");
        assert_eq!(before(&writers, "e"), 1);
    }

    #[test]
    fn inactive_writers_are_not_waited_for() {
        let writers = written(&[("a", 0), ("b", 0), ("d", 1_500), ("c", 2_000)]);
        assert_eq!(before(&writers, "c"), 1, "only d");
        assert_eq!(before(&Writers::default(), "c"), 0);
    }

    #[test]
    fn a_wait_is_bounded_and_follows_how_long_writes_take() {
        let contention = Contention::default();
        let names: Vec<String> = (0..100).map(|number| format!("w{number:03}")).collect();
        let all: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
        let writers = written(&all);
        assert_eq!(contention.turn_after(&writers, "w000"), Duration::ZERO);
        assert_eq!(contention.turn_after(&writers, "w099"), WAIT_MAX);
        (0..100).for_each(|_| contention.note_write(Duration::ZERO));
        let third = contention.turn_after(&writers, "w003");
        assert!((Duration::from_millis(3)..Duration::from_millis(4)).contains(&third), "{third:?}");
    }
}
