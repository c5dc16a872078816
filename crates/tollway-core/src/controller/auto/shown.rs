//! What a vendor's headers and bodies show of its quotas.

use serde::{Deserialize, Serialize};

use super::super::arithmetic::{calls_in, rate_of, scaled, thousandths};
use super::super::{Cap, VendorQuota};
use super::RATE_MAX;
use crate::bounds::AMOUNT_MAX;
use crate::{Span, Timestamp};

/// Two answers show the same window if their resets differ by less: they are rounded to a second.
const SAME_WINDOW: Span = Span::from_millis(1_500);
/// A window is spent so much faster than evenly, in thousandths, that its end never comes first.
const SPEND: u64 = 1_500;
/// The rate of a fill level is measured over at least this time, however many processes report.
const LEVEL_AGE: Span = Span::from_millis(900);
/// In how many seconds a fill level returns to half.
const LEVEL_SECONDS: u64 = 4;

/// One quota in a vendor's headers. It is stored as a list, without names: the state must stay small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 6]", into = "[u64; 6]")]
pub(super) struct Shown {
    limit: u64,
    left: u64,
    /// The store's count of grants when the header was made, for a window that of its last call.
    grant: u64,
    /// The end of the window; the epoch for a fill level.
    reset: Timestamp,
    seen: Timestamp,
    /// What flows into a fill level, in millionths a second.
    refill: u64,
}

impl From<[u64; 6]> for Shown {
    fn from([limit, left, grant, reset, seen, refill]: [u64; 6]) -> Self {
        let (reset, seen) = (Timestamp::from_micros(reset), Timestamp::from_micros(seen));
        Self { limit, left, grant, reset, seen, refill }
    }
}

impl From<Shown> for [u64; 6] {
    fn from(shown: Shown) -> Self {
        let Shown { limit, left, grant, reset, seen, refill } = shown;
        [limit, left, grant, reset.as_micros(), seen.as_micros(), refill]
    }
}

impl Shown {
    pub(super) fn observe(&mut self, now: Timestamp, rate: u64, quota: &VendorQuota) {
        // A header may hold any number.
        let limit = quota.limit.map(|limit| limit.min(AMOUNT_MAX));
        let quota = &VendorQuota { limit, remaining: quota.remaining.min(AMOUNT_MAX), ..*quota };
        match quota.reset {
            Some(reset) => self.observe_window(now.plus(reset), quota),
            None => self.observe_level(now, rate, quota),
        }
        self.refill = self.refill.min(RATE_MAX);
    }

    fn observe_window(&mut self, reset: Timestamp, quota: &VendorQuota) {
        let last = quota.grant.saturating_add(quota.remaining);
        if reset > self.reset.plus(SAME_WINDOW) {
            *self = Self { limit: quota.limit.unwrap_or(0), grant: last, reset, ..Self::default() };
        } else if reset.plus(SAME_WINDOW) > self.reset {
            // Answers overtake each other; the lowest count is the safe one.
            self.grant = self.grant.min(last);
        }
    }

    fn observe_level(&mut self, now: Timestamp, rate: u64, quota: &VendorQuota) {
        let limit = quota.limit.unwrap_or(0);
        let soon = now.since(self.seen) < LEVEL_AGE && limit == self.limit;
        if soon || (quota.grant <= self.grant && self.reset == Timestamp::EPOCH) {
            return;
        }
        if self.limit == 0 || self.reset > Timestamp::EPOCH {
            *self = Self { refill: rate, ..Self::default() };
        } else if limit != self.limit {
            // A plan with another burst most often has another rate in proportion.
            self.refill = scaled(self.refill, limit, self.limit);
        } else {
            let spent = quota.grant.saturating_sub(self.grant);
            let gained = quota.remaining.saturating_add(spent).saturating_sub(self.left);
            let measured = rate_of(gained, now.since(self.seen));
            let full = quota.remaining.min(self.left).saturating_add(1) >= limit;
            self.refill = if full {
                // A full bucket drops what flows in: the refill is higher than it looks.
                thousandths(self.refill.max(rate.min(measured)), 1_200)
            } else {
                self.refill.saturating_mul(3).saturating_add(measured) / 4
            };
        }
        (self.limit, self.left, self.grant, self.seen) = (limit, quota.remaining, quota.grant, now);
    }

    /// The rate this quota allows, and for a window the grants left in it; `None` if it says nothing now.
    pub(super) fn allows(&self, now: Timestamp, grants: u64) -> Option<(u64, Option<Cap>)> {
        if self.reset > Timestamp::EPOCH {
            let lasts = self.reset.since(now);
            let left = self.grant.saturating_sub(grants);
            let rate = thousandths(rate_of(left.max(1), lasts), SPEND);
            return (lasts > Span::ZERO).then_some((rate, Some(Cap { grants: left, lasts })));
        }
        if self.limit == 0 {
            return None;
        }
        let half = self.limit.div_ceil(2);
        let step = |calls: u64| calls.saturating_mul(1_000_000) / LEVEL_SECONDS;
        let up = step(self.left.saturating_sub(half));
        let down = step(half.saturating_sub(self.left));
        Some((self.refill.saturating_add(up).saturating_sub(down), None))
    }

    /// True if this quota explains a refusal: it was nearly exhausted.
    pub(super) fn explains(&self, now: Timestamp, grants: u64) -> bool {
        match self.allows(now, grants) {
            Some((_, Some(cap))) => cap.grants <= self.limit / 10,
            Some((rate, None)) => {
                self.left.saturating_sub(calls_in(rate, now.since(self.seen))) <= self.limit / 2
            }
            None => false,
        }
    }

    /// A refusal of an exhausted fill level: less flows in than thought.
    pub(super) fn refused(&mut self) {
        if self.reset == Timestamp::EPOCH {
            self.refill = thousandths(self.refill, 750);
            self.left = 0;
        }
    }
}

/// A long quota that a refusal named: so many calls in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    pub(super) period: Span,
    amount: u64,
    /// When the current period was seen to have begun, and the count of grants then.
    start: Timestamp,
    grants: u64,
}

impl Named {
    pub(super) fn refused(&mut self, period: Span, amount: Option<u64>) {
        *self = Self { period, amount: amount.unwrap_or(0).min(AMOUNT_MAX), ..Self::default() };
    }

    /// A refused call used nothing.
    pub(super) fn not_counted(&mut self) {
        self.grants = self.grants.saturating_add(1);
    }

    pub(super) fn resumed(&mut self, at: Timestamp, grants: u64) {
        if self.period > Span::ZERO && self.start == Timestamp::EPOCH {
            (self.start, self.grants) = (at, grants);
        }
    }

    /// Begins the next period when the current one is over. True if it does.
    pub(super) fn advance(&mut self, now: Timestamp, grants: u64) -> bool {
        let over = self.start > Timestamp::EPOCH && now.since(self.start) >= self.period;
        if over {
            self.start = self.start.plus(self.period).max(now.minus(self.period));
            self.grants = grants.saturating_sub(1);
        }
        over
    }

    pub(super) fn cap(&self, now: Timestamp, grants: u64) -> Option<Cap> {
        let lasts = self.start.plus(self.period).since(now);
        let used = grants.saturating_sub(self.grants);
        let known = self.start > Timestamp::EPOCH && self.amount > 0 && lasts > Span::ZERO;
        known.then_some(Cap { grants: self.amount.saturating_sub(used), lasts })
    }
}
