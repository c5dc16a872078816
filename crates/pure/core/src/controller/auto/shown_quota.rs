//! What a vendor's headers and bodies show of its quotas.

use serde::{Deserialize, Serialize};

use super::super::arithmetic::{calls_in, rate_of, scaled, thousandths};
use super::super::{Cap, Keep, QuotaLeft, VendorQuota};
use super::{RATE_MAX, START_RATE};
use crate::bounds::AMOUNT_MAX;
use crate::{Span, Timestamp};

/// Two answers show the same end of a window if it differs by less: resets are rounded to a second.
const SAME_END: Span = Span::from_millis(1_500);
/// Whole seconds say too little about a shorter window.
const WINDOW_MIN: Span = Span::from_secs(3);
/// Nothing is held back for longer because of a window whose end was seen only once.
const UNPROVED_MAX: Span = Span::from_secs(10);
/// Headers that did not show windows are looked at again after this time.
const DOUBT_LASTS: Span = Span::from_hours(1);
/// A window is spent so much faster than evenly, in thousandths, that its end never comes first.
const SPEND: u64 = 1_500;
/// The rate of a fill level is measured over at least this time, however many processes report.
const LEVEL_AGE: Span = Span::from_millis(900);
/// Nothing flows into a fill level if it is less than this part of the rate.
const DRY: u64 = 8;
/// In how many seconds a fill level returns to its reserve.
const LEVEL_SECONDS: u64 = 4;
/// The reserve is what is called in this time and two calls, at most half of the level.
const RESERVE: Span = Span::from_millis(100);

/// Calls go on however low a level is: without them, nothing would be seen of it.
const LEVEL_RATE_MIN: u64 = START_RATE / 8;

/// What the resets in a vendor's headers turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// There are none: what is left is a fill level.
    #[default]
    Level,
    /// The end of a window, as far as one has seen.
    Window,
    /// Something else, such as the time until one more call fits: limits are measured at refusals.
    Unknown,
}

/// What headers say about the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// They show no window. All of the quota comes back in the longest time that a reset showed: this rate.
    Rate(u64),
    /// The amount of the quota changed.
    Changed { from: u64, to: u64 },
}

/// One quota in a vendor's headers. It is stored as a list, without names: the state must stay small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 7]", into = "[u64; 7]")]
pub(super) struct ShownQuota {
    kind: Kind,
    limit: u64,
    /// What was left of a fill level; 1 for a window whose end stayed where it was.
    left: u64,
    /// The store's count of grants when the header was made, for a window that of its last call.
    grant: u64,
    /// The end of the window.
    reset: Timestamp,
    /// When a fill level was last seen, and a window first.
    seen: Timestamp,
    /// Of a fill level: what flows in, in millionths a second. Of a window: the longest time to its end.
    measure: u64,
}

impl From<[u64; 7]> for ShownQuota {
    fn from([kind, limit, left, grant, reset, seen, measure]: [u64; 7]) -> Self {
        let (reset, seen) = (Timestamp::from_micros(reset), Timestamp::from_micros(seen));
        let kind = match kind {
            0 => Kind::Level,
            1 => Kind::Window,
            _ => Kind::Unknown,
        };
        Self { kind, limit, left, grant, reset, seen, measure }
    }
}

impl From<ShownQuota> for [u64; 7] {
    fn from(shown: ShownQuota) -> Self {
        let ShownQuota { kind, limit, left, grant, reset, seen, measure } = shown;
        [kind as u64, limit, left, grant, reset.as_micros(), seen.as_micros(), measure]
    }
}

impl ShownQuota {
    /// Takes in a header, and returns what it says about the limit beyond this moment.
    pub(super) fn observe(&mut self, now: Timestamp, rate: u64, quota: &VendorQuota) -> Option<Hint> {
        // A header may hold any number.
        let limit = quota.limit.map(|limit| limit.min(AMOUNT_MAX));
        let quota = &VendorQuota { limit, remaining: quota.remaining.min(AMOUNT_MAX), ..*quota };
        match quota.reset {
            Some(reset) => self.observe_window(now, reset, quota),
            None => {
                self.observe_level(now, rate, quota);
                None
            }
        }
    }

    /// A window keeps its end until it is over. Then a whole length follows, with a quota that is full again. What behaves
    /// otherwise is a bucket or a sliding window.
    fn observe_window(&mut self, now: Timestamp, reset: Span, quota: &VendorQuota) -> Option<Hint> {
        let (end, limit) = (now.plus(reset), quota.limit.unwrap_or(0));
        let last = quota.grant.saturating_add(quota.remaining);
        let forgotten = self.kind == Kind::Unknown && now.since(self.seen) >= DOUBT_LASTS;
        if self.kind == Kind::Level || limit != self.limit || forgotten {
            // A header that begins with nothing left may never show anything else.
            let measure = if quota.remaining > 0 { reset.as_micros() } else { 0 };
            let kind = Kind::Window;
            let before = std::mem::replace(
                self,
                Self { kind, limit, left: 0, grant: last, reset: end, seen: now, measure },
            );
            let changed =
                before.kind != Kind::Level && before.limit > 0 && limit > 0 && limit != before.limit;
            return changed.then_some(Hint::Changed { from: before.limit, to: limit });
        } else if self.kind == Kind::Unknown {
            // For people only: it bounds nothing.
            (self.grant, self.reset) = (last, end);
            return None;
        } else if end > self.reset.plus(SAME_END) {
            let is_over = now.plus(SAME_END) >= self.reset;
            let whole = end.since(self.reset).as_micros() >= self.measure / 2;
            let is_full = last.saturating_sub(self.grant.min(quota.grant)) >= limit / 2;
            self.measure = self.measure.max(reset.as_micros());
            if is_over && whole && is_full {
                (self.grant, self.reset, self.left) = (last, end, 1);
            } else {
                (self.kind, self.seen) = (Kind::Unknown, now);
                let long = self.measure >= WINDOW_MIN.as_micros() && limit > 0;
                return (is_over && long)
                    .then(|| Hint::Rate(rate_of(limit, Span::from_micros(self.measure))));
            }
        } else if end.plus(SAME_END) > self.reset {
            // Answers overtake each other; the lowest count is the safe one.
            self.grant = self.grant.min(last);
            self.left = self.left.max(u64::from(now.since(self.seen) >= WINDOW_MIN));
        } else if reset > SAME_END {
            // The end came nearer by more than the time that passed, and is no window that has just ended.
            (self.kind, self.seen) = (Kind::Unknown, now);
        }
        None
    }

    fn observe_level(&mut self, now: Timestamp, rate: u64, quota: &VendorQuota) {
        let limit = quota.limit.unwrap_or(0);
        let soon = now.since(self.seen) < LEVEL_AGE && limit == self.limit;
        let doubted = self.kind == Kind::Unknown && self.limit == limit && now.since(self.seen) < DOUBT_LASTS;
        if doubted {
            // For people only: it bounds nothing.
            (self.left, self.grant, self.reset) = (quota.remaining, quota.grant, Timestamp::EPOCH);
            return;
        }
        if self.kind != Kind::Level || self.limit == 0 {
            *self = Self { measure: rate, ..Self::default() };
        } else if soon || quota.grant <= self.grant {
            return;
        } else if limit != self.limit {
            // A plan with another burst most often has another rate in proportion.
            self.measure = scaled(self.measure, limit, self.limit);
        } else if self.observe_inflow(now, rate, limit, quota).is_none() {
            self.kind = Kind::Unknown;
        }
        self.measure = self.measure.min(RATE_MAX);
        (self.limit, self.left, self.grant, self.seen) = (limit, quota.remaining, quota.grant, now);
    }

    /// Measures what flows into a fill level; `None` if nothing does: then it is a window or a quota of a day.
    fn observe_inflow(&mut self, now: Timestamp, rate: u64, limit: u64, quota: &VendorQuota) -> Option<()> {
        let spent = quota.grant.saturating_sub(self.grant);
        let gained = quota.remaining.saturating_add(spent).saturating_sub(self.left);
        let measured = rate_of(gained, now.since(self.seen));
        let is_full = quota.remaining.min(self.left).saturating_add(1) >= limit;
        self.measure = if is_full {
            // A full bucket drops what flows in: the refill is higher than it looks.
            thousandths(self.measure.max(rate.min(measured)), 1_200)
        } else {
            self.measure.saturating_mul(3).saturating_add(measured) / 4
        };
        (gained > 0 || self.measure >= rate / DRY).then_some(())
    }

    /// The rate this quota allows, and for a window the grants left in it without those kept; `None` if it says nothing now.
    pub(super) fn allows(&self, now: Timestamp, grants: u64, keep: Keep) -> Option<(u64, Option<Cap>)> {
        match self.kind {
            Kind::Window => {
                let lasts = self.reset.since(now);
                let believed = if self.left > 0 { lasts } else { lasts.min(UNPROVED_MAX) };
                let left = self.grant.saturating_sub(grants).saturating_sub(keep.of(self.limit));
                let even = thousandths(rate_of(left.max(1), lasts), SPEND);
                let rate = if self.left > 0 { even } else { RATE_MAX };
                let says = lasts > Span::ZERO && self.measure >= WINDOW_MIN.as_micros();
                says.then_some((rate, Some(Cap { grants: left, lasts: believed })))
            }
            Kind::Level if self.limit > 0 => {
                let reserve = calls_in(self.measure, RESERVE).saturating_add(2).min(self.limit.div_ceil(2));
                let step = |calls: u64| calls.saturating_mul(1_000_000) / LEVEL_SECONDS;
                let up = step(self.left.saturating_sub(reserve));
                let down = step(reserve.saturating_sub(self.left));
                Some((self.measure.saturating_add(up).saturating_sub(down).max(LEVEL_RATE_MIN), None))
            }
            Kind::Level | Kind::Unknown => None,
        }
    }

    /// What is left, for people. `None` if nothing was shown, or the reset has passed since.
    pub(super) fn left(&self, now: Timestamp, grants: u64) -> Option<QuotaLeft> {
        let was_shown = *self != Self::default();
        let limit = Some(self.limit).filter(|limit| *limit > 0);
        if self.reset == Timestamp::EPOCH {
            let since = grants.saturating_sub(self.grant);
            let remaining = self.left.saturating_sub(since);
            return was_shown.then_some(QuotaLeft { limit, remaining, resets_at: None });
        }
        let remaining = self.grant.saturating_sub(grants);
        let remaining = remaining.min(limit.unwrap_or(u64::MAX));
        (self.reset > now).then_some(QuotaLeft { limit, remaining, resets_at: Some(self.reset) })
    }

    /// A refusal although a fill level was shown: less flows in than thought.
    pub(super) fn refused(&mut self) {
        if self.kind == Kind::Level {
            self.measure = thousandths(self.measure, 750);
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
