//! What a store does for an adaptive limit: a bucket at the controller's pace, a hold, a cap, and a count of grants.

use tollway_core::controller::{ONE_CALL, Pace};
use tollway_core::{Span, Timestamp};

/// The account of one adaptive limit.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    rate: u64,
    burst: u64,
    level: u64,
    at: Timestamp,
    hold_until: Timestamp,
    cap: Option<(u64, Timestamp)>,
    pub(crate) cut: u64,
    pub(crate) grants: u64,
}

impl Account {
    pub(crate) fn new(pace: Pace) -> Self {
        let at = Timestamp::EPOCH;
        let level = pace.burst.min(ONE_CALL);
        let Pace { rate, burst, cut, .. } = pace;
        let cap = pace.cap.map(|cap| (cap.grants, at.plus(cap.lasts)));
        Self { rate, burst, level, at, hold_until: at, cap, cut, grants: 0 }
    }

    /// The earliest time at which a call is granted, from `now` on, if nothing changes; `None` if never.
    pub(crate) fn next_grant(&self, now: Timestamp) -> Option<Timestamp> {
        if self.burst < ONE_CALL || self.rate == 0 {
            return None;
        }
        let missing = u128::from(ONE_CALL.saturating_sub(self.level));
        let refilled = (missing * 1_000_000).div_ceil(u128::from(self.rate));
        let at = self.at.plus(Span::from_micros(u64::try_from(refilled).unwrap_or(u64::MAX)));
        let at = at.max(now).max(self.hold_until);
        Some(match self.cap {
            Some((0, until)) => at.max(until),
            _ => at,
        })
    }

    /// Grants a call at a time that `next_grant` returned. True if it was the last one of a cap.
    pub(crate) fn grant(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.level = self.level.saturating_sub(ONE_CALL);
        self.grants += 1;
        match &mut self.cap {
            Some((left, until)) if now < *until => {
                *left -= 1;
                *left == 0
            }
            _ => false,
        }
    }

    /// Brings the bucket to now at the old rate, then follows the pace. The later hold wins.
    pub(crate) fn follow(&mut self, now: Timestamp, pace: Pace) {
        self.refill(now);
        if pace.cut > self.cut {
            self.level = self.level.max(ONE_CALL);
        }
        (self.rate, self.burst, self.cut) = (pace.rate, pace.burst, pace.cut);
        self.level = self.level.min(pace.burst);
        self.hold_until = self.hold_until.max(now.plus(pace.hold));
        self.cap = pace.cap.map(|cap| (cap.grants, now.plus(cap.lasts)));
    }

    fn refill(&mut self, now: Timestamp) {
        let gained = u128::from(self.rate) * u128::from(now.since(self.at).as_micros()) / 1_000_000;
        let level = self.level.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX));
        self.level = level.min(self.burst);
        self.at = self.at.max(now);
    }
}
