//! The quotas of a vendor: fixed windows, buckets and sliding windows, whose terms may change at given times.

use std::collections::VecDeque;

use tollway_core::{Span, Timestamp};

/// One call, in the millionths in which buckets count.
const ONE: u64 = 1_000_000;

/// The most entries in the log of a sliding window. Refusals that count would let it grow without end.
const LOG_MAX: usize = 1 << 20;

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One for each call.
    Calls,
    /// The tokens of a call.
    Tokens,
}

/// How a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many in each window; windows start at `phase` and every `length` before and after.
    Window {
        /// Units of a window.
        amount: u64,
        /// From one window to the next.
        length: Span,
        /// The start of one window.
        phase: Span,
    },
    /// So many millionths a second, saved up to `burst` whole units.
    Bucket {
        /// Millionths of a unit a second.
        rate: u64,
        /// Whole units.
        burst: u64,
    },
    /// So many in any stretch of this length.
    Sliding {
        /// Units in that stretch.
        amount: u64,
        /// The stretch.
        length: Span,
    },
}

impl Shape {
    /// The most units at once: those of a window, or the burst.
    pub fn limit(&self) -> u64 {
        match *self {
            Self::Window { amount, .. } | Self::Sliding { amount, .. } => amount,
            Self::Bucket { burst, .. } => burst,
        }
    }

    /// The length of the window, or the time in which an empty bucket becomes full.
    pub fn period(&self) -> Span {
        match *self {
            Self::Window { length, .. } | Self::Sliding { length, .. } => length,
            Self::Bucket { rate, burst } => time_to_refill(burst.saturating_mul(ONE), rate),
        }
    }

    /// Units a second in the long run, in millionths.
    pub fn rate(&self) -> u64 {
        match *self {
            Self::Bucket { rate, .. } => rate,
            Self::Window { amount, length, .. } | Self::Sliding { amount, length } => {
                (u128::from(amount) * 1_000_000_000_000 / u128::from(length.as_micros().max(1))) as u64
            }
        }
    }
}

/// A quota: its unit, and its shape from each time on. The first time is the epoch.
#[derive(Clone, Debug)]
pub struct Quota {
    /// What it counts.
    pub unit: Unit,
    /// Each shape and the time from which it is in force.
    pub shapes: Vec<(Timestamp, Shape)>,
}

impl Quota {
    /// A quota of calls that does not change.
    pub fn calls(shape: Shape) -> Self {
        Self { unit: Unit::Calls, shapes: vec![(Timestamp::EPOCH, shape)] }
    }

    /// A quota of tokens that does not change.
    pub fn tokens(shape: Shape) -> Self {
        Self { unit: Unit::Tokens, ..Self::calls(shape) }
    }

    /// The same, with another shape from `at` on.
    pub fn then(mut self, at: Timestamp, shape: Shape) -> Self {
        self.shapes.push((at, shape));
        self
    }

    /// The shape in force.
    pub fn shape(&self, now: Timestamp) -> Shape {
        let later = self.shapes.iter().skip(1).take_while(|(from, _)| *from <= now).last();
        later.or(self.shapes.first()).map_or(Shape::Bucket { rate: 0, burst: 0 }, |(_, shape)| *shape)
    }
}

/// The state of a quota.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    quota: Quota,
    /// The bucket's level in millionths, as of `at`.
    level: Option<u64>,
    at: Timestamp,
    /// Number of the current window, and units used in it.
    window: u64,
    used: u64,
    /// Times and units of a sliding window.
    log: VecDeque<(Timestamp, u64)>,
    logged: u64,
}

impl Meter {
    pub(crate) fn new(quota: Quota) -> Self {
        let at = Timestamp::EPOCH;
        Self { quota, level: None, at, window: 0, used: 0, log: VecDeque::new(), logged: 0 }
    }

    pub(crate) fn unit(&self) -> Unit {
        self.quota.unit
    }

    /// Changes the terms. What was used stays used.
    pub(crate) fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
    }

    pub(crate) fn shape(&self, now: Timestamp) -> Shape {
        self.quota.shape(now)
    }

    /// Brings the meter to `now` and returns the whole units left.
    pub(crate) fn left(&mut self, now: Timestamp) -> u64 {
        match self.shape(now) {
            Shape::Window { amount, length, phase } => {
                let number = window_number(now, length, phase);
                if number != self.window {
                    (self.window, self.used) = (number, 0);
                }
                amount.saturating_sub(self.used)
            }
            Shape::Bucket { rate, burst } => {
                let full = burst * ONE;
                let gained = u128::from(rate) * u128::from(now.since(self.at).as_micros()) / 1_000_000;
                let level = self
                    .level
                    .map_or(full, |level| level.saturating_add(u64::try_from(gained).unwrap_or(full)));
                self.level = Some(level.min(full));
                self.at = self.at.max(now);
                level.min(full) / ONE
            }
            Shape::Sliding { amount, length } => {
                while self.log.front().is_some_and(|(at, _)| at.plus(length) <= now) {
                    self.logged -= self.log.pop_front().map_or(0, |(_, units)| units);
                }
                amount.saturating_sub(self.logged)
            }
        }
    }

    /// Counts units. A bucket gives at most what it has.
    pub(crate) fn spend(&mut self, now: Timestamp, units: u64) {
        match self.shape(now) {
            Shape::Window { .. } => self.used += units,
            Shape::Bucket { .. } => {
                self.level = self.level.map(|level| level.saturating_sub(units * ONE));
            }
            Shape::Sliding { .. } => {
                self.logged += units;
                let is_full = self.log.len() >= LOG_MAX;
                match self.log.back_mut().filter(|_| is_full) {
                    Some(last) => *last = (now, last.1 + units),
                    None => self.log.push_back((now, units)),
                }
            }
        }
    }

    /// The time until `units` fit, if no other call comes.
    pub(crate) fn wait(&self, now: Timestamp, units: u64) -> Span {
        match self.shape(now) {
            Shape::Window { length, phase, .. } => {
                let into =
                    (now.as_micros() + length.as_micros() - phase_within(length, phase)) % length.as_micros();
                Span::from_micros(length.as_micros() - into)
            }
            Shape::Bucket { rate, .. } => {
                time_to_refill((units * ONE).saturating_sub(self.level.unwrap_or(0)), rate)
            }
            Shape::Sliding { amount, length } => {
                let mut free = amount.saturating_sub(self.logged);
                let needed = self.log.iter().find(|(_, logged)| {
                    free += logged;
                    free >= units
                });
                needed.map_or(length, |(at, _)| at.plus(length).since(now))
            }
        }
    }

    /// The time until the whole quota is free again, if no other call comes.
    pub(crate) fn full_in(&self, now: Timestamp) -> Span {
        match self.shape(now) {
            Shape::Window { .. } => self.wait(now, 1),
            Shape::Bucket { burst, .. } => self.wait(now, burst),
            Shape::Sliding { length, .. } => {
                self.log.back().map_or(Span::ZERO, |(at, _)| at.plus(length).since(now))
            }
        }
    }
}

/// The time in which so many millionths come back.
fn time_to_refill(missing: u64, rate: u64) -> Span {
    let micros = (u128::from(missing) * 1_000_000).div_ceil(u128::from(rate.max(1)));
    Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

fn phase_within(length: Span, phase: Span) -> u64 {
    phase.as_micros() % length.as_micros().max(1)
}

fn window_number(now: Timestamp, length: Span, phase: Span) -> u64 {
    (now.as_micros() + length.as_micros() - phase_within(length, phase)) / length.as_micros().max(1)
}
