//! The most frequent subjects, in bounded memory: exact for few subjects, close for the frequent ones of many.
//!
//! This is the space-saving algorithm, done in bulk. When there are twice as many counters as are kept, those with the
//! smallest counts are dropped, and the largest dropped count is the floor: a new subject may have been dropped before, so
//! its count starts there. A count is never below the truth, and never above it by more than the floor.

use std::collections::HashMap;

use tollway_core::Subject;

/// How many subjects are kept when some are dropped: a few megabytes.
pub const COUNTERS_KEPT: usize = 10_000;

/// Counts by subject.
#[derive(Debug, Default)]
pub struct Ranking {
    counts: HashMap<Subject, u64>,
    floor: u64,
}

impl Ranking {
    pub(crate) fn add(&mut self, subject: &Subject) {
        if let Some(count) = self.counts.get_mut(subject) {
            *count += 1;
            return;
        }
        if self.counts.len() >= 2 * COUNTERS_KEPT {
            self.drop_smallest();
        }
        self.counts.insert(subject.clone(), self.floor + 1);
    }

    fn drop_smallest(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let (_, floor, _) = counts.select_nth_unstable_by(COUNTERS_KEPT, |one, other| other.cmp(one));
        self.floor = *floor;
        self.counts.retain(|_, count| *count > self.floor);
    }

    /// How much too high a count may be; 0 while all are exact.
    pub fn error(&self) -> u64 {
        self.floor
    }

    /// How many subjects there are; if counts are not exact, there are more.
    pub fn subjects(&self) -> usize {
        if self.floor > 0 { 2 * COUNTERS_KEPT } else { self.counts.len() }
    }

    /// How often this subject was counted; 0 if it was dropped.
    pub fn count(&self, subject: &Subject) -> u64 {
        self.counts.get(subject).copied().unwrap_or(0)
    }

    /// The most frequent, first by count, then by name.
    pub fn top(&self, most: usize) -> Vec<(&Subject, u64)> {
        let mut all: Vec<(&Subject, u64)> =
            self.counts.iter().map(|(subject, count)| (subject, *count)).collect();
        all.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(number: usize) -> Subject {
        Subject::new(&format!("s{number}")).unwrap()
    }

    #[test]
    fn few_subjects_are_counted_exactly() {
        let mut ranking = Ranking::default();
        for number in [3, 1, 3, 2, 3, 1] {
            ranking.add(&subject(number));
        }
        let top: Vec<_> =
            ranking.top(2).into_iter().map(|(subject, count)| (subject.as_str(), count)).collect();
        assert_eq!(top, [("s3", 3), ("s1", 2)]);
        assert_eq!((ranking.subjects(), ranking.error()), (3, 0));
    }

    #[test]
    fn many_subjects_take_bounded_memory_and_hide_no_frequent_one() {
        let mut ranking = Ranking::default();
        for number in 0..200_000 {
            ranking.add(&subject(number));
            if number % 4 == 0 {
                ranking.add(&subject(1_000_000));
            }
            assert!(ranking.counts.len() <= 2 * COUNTERS_KEPT);
        }
        assert!(ranking.error() > 0);
        assert_eq!(ranking.subjects(), 2 * COUNTERS_KEPT);
        let (first, count) = ranking.top(1)[0];
        assert_eq!(*first, subject(1_000_000));
        assert!((50_000..=50_000 + ranking.error()).contains(&count), "{count}");
    }
}
