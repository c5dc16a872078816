//! The state of a demo: its settings, and the events so far.

use tollway::{Span, Timestamp};

use super::quota::Quota;
use super::tally::{Count, Tally};

/// The settings of a demo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) quota: Quota,
    pub(super) minutes: u64,
    pub(super) workers: usize,
    pub(super) with_tollway: bool,
}

/// A killed worker and its replacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Killed {
    pub(super) worker: usize,
    pub(super) at: Timestamp,
    pub(super) replaced_by: Option<usize>,
}

/// The state of a demo.
#[derive(Clone, Debug)]
pub(super) struct DemoState {
    pub(super) plan: Plan,
    pub(super) started_at: Timestamp,
    pub(super) now: Timestamp,
    pub(super) interrupted: bool,
    pub(super) killed: Option<Killed>,
    /// Process ids, in the order of the workers' numbers.
    pub(super) pids: Vec<u32>,
    pub(super) tally: Tally,
}

impl DemoState {
    pub(super) fn new(plan: Plan, started_at: Timestamp) -> Self {
        Self {
            plan,
            started_at,
            now: started_at,
            interrupted: false,
            killed: None,
            pids: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// The first full minute; workers start in the one before.
    pub(super) fn first_minute(&self) -> u64 {
        self.plan.quota.minute_at(self.started_at) + 1
    }

    /// The displayed number of a minute: full minutes count from 1.
    pub(super) fn number_of(&self, minute: u64) -> Option<u64> {
        let number = (minute + 1).checked_sub(self.first_minute())?;
        (1..=self.plan.minutes).contains(&number).then_some(number)
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        self.plan.quota.begin_of(self.first_minute() + self.plan.minutes)
    }

    /// In the middle of the run, while a minute is in progress.
    pub(super) fn kills_at(&self) -> Timestamp {
        let middle = self.first_minute() + (self.plan.minutes - 1) / 2;
        self.plan.quota.begin_of(middle).plus(self.part_of_minute(25))
    }

    /// Late enough to see the missing worker.
    pub(super) fn replaces_at(&self) -> Timestamp {
        self.kills_at().plus(self.part_of_minute(15))
    }

    fn part_of_minute(&self, percent: u64) -> Span {
        self.plan.quota.percent_of_minute(percent)
    }

    /// The completed full minutes, with their counts.
    pub(super) fn full_minutes(&self) -> impl Iterator<Item = (u64, Count)> {
        let over = self.plan.quota.minute_at(self.now).min(self.first_minute() + self.plan.minutes);
        (self.first_minute()..over).map(|minute| (minute, self.tally.minute(minute)))
    }
}
