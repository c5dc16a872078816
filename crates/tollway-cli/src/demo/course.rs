//! The course of a demo: what is meant to happen, and what has happened so far.

use tollway::{Span, Timestamp};

use super::quota::Quota;
use super::tally::{Count, Tally};

/// What is meant to happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) quota: Quota,
    pub(super) minutes: u64,
    pub(super) workers: usize,
    pub(super) with_tollway: bool,
}

/// A worker that was killed, and the one that took its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Killed {
    pub(super) worker: usize,
    pub(super) at: Timestamp,
    pub(super) replaced_by: Option<usize>,
}

/// What has happened so far.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) plan: Plan,
    pub(super) started_at: Timestamp,
    pub(super) now: Timestamp,
    pub(super) interrupted: bool,
    pub(super) killed: Option<Killed>,
    /// Process ids, in the order of the workers' numbers.
    pub(super) pids: Vec<u32>,
    pub(super) tally: Tally,
}

impl Course {
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

    /// The first minute that is watched as a whole; workers start in the one before.
    pub(super) fn first_minute(&self) -> u64 {
        self.plan.quota.minute_at(self.started_at) + 1
    }

    /// What people call a minute: those that are whole are counted from 1.
    pub(super) fn number_of(&self, minute: u64) -> Option<u64> {
        let number = (minute + 1).checked_sub(self.first_minute())?;
        (1..=self.plan.minutes).contains(&number).then_some(number)
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        self.plan.quota.begin_of(self.first_minute() + self.plan.minutes)
    }

    /// In the middle of the run, and while the minute fills.
    pub(super) fn kills_at(&self) -> Timestamp {
        let middle = self.first_minute() + (self.plan.minutes - 1) / 2;
        self.plan.quota.begin_of(middle).plus(self.part_of_minute(25))
    }

    /// Late enough to see that one is missing.
    pub(super) fn replaces_at(&self) -> Timestamp {
        self.kills_at().plus(self.part_of_minute(15))
    }

    fn part_of_minute(&self, percent: u64) -> Span {
        self.plan.quota.percent_of_minute(percent)
    }

    /// The minutes that were watched as a whole and are over, with what was counted in them.
    pub(super) fn whole_minutes(&self) -> impl Iterator<Item = (u64, Count)> {
        let over = self.plan.quota.minute_at(self.now).min(self.first_minute() + self.plan.minutes);
        (self.first_minute()..over).map(|minute| (minute, self.tally.minute(minute)))
    }
}
