//! Whether the vendor answers at all. While it fails, calls become fewer and nothing is learned.

use serde::{Deserialize, Serialize};

use super::super::arithmetic::{scaled, thousandths};
use super::START_RATE;
use crate::bounds::COUNT_MAX;
use crate::{Span, Timestamp};

/// How long calls are counted together, and how long the pace stays as it is before it falls again.
const COUNTED: Span = Span::from_secs(10);
/// Fewer calls say nothing, and so many successes end it.
const CALLS_MIN: u64 = 10;
/// What is left of the pace when it falls, in thousandths.
const FALL: u64 = 750;
/// More falls make no difference: the rate is at its floor long before.
const FALLS_MAX: u64 = 64;

/// How the calls of the last seconds ended. It is stored as a list, without names: the state must stay small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 5]", into = "[u64; 5]")]
pub(super) struct Health {
    /// Since when they are counted.
    since: Timestamp,
    ended: u64,
    accepted: u64,
    failed: u64,
    /// How often the pace fell.
    falls: u64,
}

impl From<[u64; 5]> for Health {
    fn from([since, ended, accepted, failed, falls]: [u64; 5]) -> Self {
        Self { since: Timestamp::from_micros(since), ended, accepted, failed, falls: falls.min(FALLS_MAX) }
    }
}

impl From<Health> for [u64; 5] {
    fn from(health: Health) -> Self {
        let Health { since, ended, accepted, failed, falls } = health;
        [since.as_micros(), ended, accepted, failed, falls]
    }
}

impl Health {
    /// Takes in how calls ended. True if the vendor has just recovered.
    pub(super) fn observe(&mut self, now: Timestamp, ended: u64, accepted: u64, failed: u64) -> bool {
        let is_old = now.since(self.since) >= COUNTED;
        if is_old && (!self.is_failing() || self.ended >= CALLS_MIN) {
            self.count_from(now);
        }
        self.ended = self.ended.saturating_add(ended).min(COUNT_MAX);
        self.accepted = self.accepted.saturating_add(accepted).min(COUNT_MAX);
        self.failed = self.failed.saturating_add(failed).min(COUNT_MAX);
        let recovers = self.is_failing() && self.accepted >= CALLS_MIN && self.accepted > self.failed;
        if recovers {
            *self = Self { since: now, ..Self::default() };
        } else if !self.is_failing() && self.mostly_fails() {
            *self = Self { since: now, falls: 1, ..Self::default() };
        }
        recovers
    }

    fn count_from(&mut self, now: Timestamp) {
        let falls = match self.is_failing() && self.mostly_fails() {
            true => self.falls.saturating_add(1).min(FALLS_MAX),
            false => self.falls,
        };
        *self = Self { since: now, falls, ..Self::default() };
    }

    fn mostly_fails(&self) -> bool {
        self.ended >= CALLS_MIN && self.failed > self.ended / 2
    }

    /// This many of the calls that lately ended were accepted.
    pub(super) fn accepted_of(&self, calls: u64) -> u64 {
        scaled(calls, self.accepted.min(self.ended), self.ended)
    }

    pub(super) fn is_failing(&self) -> bool {
        self.falls > 0
    }

    /// The pace in place of this rate.
    pub(super) fn slowed(&self, rate: u64, ceiling: u64) -> u64 {
        let slowed = (0..self.falls).fold(rate, |rate, _| thousandths(rate, FALL));
        slowed.max(START_RATE.max(ceiling / 4)).min(rate)
    }
}
