//! A bucket with continuous refill, exact for odd rates: usage is whole units plus a fraction of one.
//!
//! A bucket stores what is *used*, not what is left, so that a changed amount or burst loses nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rules::{check_amount, check_period};
use super::{Advance, AlgorithmRules, Correction, Debited, Refill, Room, State};
use crate::bounds::COUNT_MAX;
use crate::{Limit, LimitError, PermitId, Span, Timestamp};

/// A bucket that refills in this time; one without a burst is paced: single units, evenly spaced.
#[derive(Clone, Copy)]
pub(crate) struct BucketRules {
    pub(crate) period: Span,
    pub(crate) burst: Option<u64>,
}

impl BucketRules {
    #[inline]
    fn rate(self, limit: &Limit) -> Rate {
        Rate { amount: limit.amount(), period: self.period }
    }
}

impl AlgorithmRules for BucketRules {
    type State = Bucket;

    fn word(self) -> &'static str {
        if self.burst.is_some() { "bucket" } else { "paced" }
    }

    fn period(self) -> Option<Span> {
        Some(self.period)
    }

    fn check(self, _: u64) -> Result<(), LimitError> {
        check_period(self.period)?;
        match self.burst {
            Some(0) => Err(LimitError::ZeroBurst),
            Some(burst) => check_amount(burst),
            None => Ok(()),
        }
    }

    fn capacity(self, _: u64) -> u64 {
        self.burst.unwrap_or(1)
    }

    fn refill(self, amount: u64) -> Option<Refill> {
        Some(Refill::new(amount, self.period, self.capacity(amount)))
    }

    fn longest_memory(self, limit: &Limit) -> Span {
        limit.refill_time()
    }

    fn books_ahead(self) -> bool {
        true
    }

    fn write(self, amount: u64, rate: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.burst {
            Some(burst) if burst != amount => write!(f, "{rate} bucket burst {burst}"),
            Some(_) | None => write!(f, "{rate} {}", self.word()),
        }
    }

    fn fresh(self) -> State {
        State::Bucket(Bucket::default())
    }

    fn advance(self, limit: &Limit, bucket: &mut Bucket, as_of: Timestamp, to: Timestamp) {
        *bucket = bucket.after(self.rate(limit), to.since(as_of));
    }

    fn earliest(
        self,
        limit: &Limit,
        bucket: &Bucket,
        room: Room,
        as_of: Timestamp,
        from: Timestamp,
    ) -> Timestamp {
        let wait = bucket.wait_for(self.rate(limit), room.capacity, room.amount);
        from.max(as_of.plus(wait))
    }

    fn debit(self, limit: &Limit, bucket: &mut Bucket, room: Room, span: Advance, _: PermitId) -> Debited {
        let elapsed = span.at.since(span.as_of);
        let holds = bucket.debit_after(self.rate(limit), room.capacity, room.amount, elapsed);
        let expires = limit.certainly_refilled_at(*bucket, span.at);
        Debited { good_until: Timestamp::MAX, expires, holds }
    }

    fn settle(self, limit: &Limit, bucket: &mut Bucket, correction: Correction, as_of: Timestamp) -> bool {
        let young = limit.refilled_in(as_of.since(correction.booked_at)) <= limit.capacity();
        bucket.settle(correction, young)
    }

    fn used(self, limit: &Limit, bucket: &Bucket, as_of: Timestamp, at: Timestamp) -> u64 {
        bucket.after(self.rate(limit), at.since(as_of)).whole()
    }

    fn fresh_at(self, limit: &Limit, bucket: &Bucket, as_of: Timestamp) -> Timestamp {
        bucket.fresh_at(self.rate(limit), as_of)
    }
}

/// The usage: `used + part / period` units, as of the account's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Whole units.
    pub used: u64,
    /// The fraction of a unit, in 1/period (period in microseconds); below the period.
    pub part: u64,
}

/// How fast a bucket drains: `amount` units in `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(super) amount: u64,
    pub(super) period: Span,
}

impl Rate {
    /// How long these units take to refill, rounded up.
    pub(super) fn time_of(self, units: u64) -> Span {
        let total = u128::from(units).saturating_mul(u128::from(self.period.as_micros()));
        Span::from_micros(u64::try_from(total.div_ceil(u128::from(self.amount.max(1)))).unwrap_or(u64::MAX))
    }
}

impl Bucket {
    /// What is still used after `elapsed`.
    #[inline(always)]
    pub(super) fn after(self, rate: Rate, elapsed: Span) -> Self {
        self.after_narrow(rate, elapsed).unwrap_or_else(|| self.after_wide(rate, elapsed))
    }

    /// The fast path: 64-bit arithmetic, enough for nearly all limits. It needs no division if less than a unit has
    /// refilled, which is the common case at a high rate of takes.
    #[inline(always)]
    fn after_narrow(self, rate: Rate, elapsed: Span) -> Option<Self> {
        let period = rate.period.as_micros();
        let drained = elapsed.as_micros().checked_mul(rate.amount)?;
        let (units, rest) = if drained < period {
            (0, drained)
        } else {
            (drained.checked_div(period)?, drained.checked_rem(period)?)
        };
        let (part, borrowed) = self.part.overflowing_sub(rest);
        let part = if borrowed { part.wrapping_add(period) } else { part };
        let used = self.used.checked_sub(units.saturating_add(u64::from(borrowed)));
        Some(used.map_or_else(Self::default, |used| Self { used, part }))
    }

    #[cold]
    fn after_wide(self, rate: Rate, elapsed: Span) -> Self {
        let period = u128::from(rate.period.as_micros().max(1));
        let drained = u128::from(elapsed.as_micros()).saturating_mul(u128::from(rate.amount));
        let left = self.total(rate).saturating_sub(drained);
        let narrow = |wide: Option<u128>| wide.and_then(|wide| u64::try_from(wide).ok()).unwrap_or(COUNT_MAX);
        Self { used: narrow(left.checked_div(period)), part: narrow(left.checked_rem(period)) }
    }

    /// How long until `amount` fits; zero if it fits now. Rounded up.
    pub(super) fn wait_for(self, rate: Rate, burst: u64, amount: u64) -> Span {
        let room = burst.saturating_sub(amount);
        if self.whole() <= room {
            return Span::ZERO;
        }
        self.wait_narrow(rate, room).unwrap_or_else(|| self.wait_wide(rate, room))
    }

    fn wait_narrow(self, rate: Rate, room: u64) -> Option<Span> {
        let period = rate.period.as_micros();
        let excess = self.used.checked_sub(room)?.checked_mul(period)?.checked_add(self.part)?;
        Some(Span::from_micros(excess.div_ceil(rate.amount.max(1))))
    }

    #[cold]
    fn wait_wide(self, rate: Rate, room: u64) -> Span {
        let room = u128::from(room).saturating_mul(u128::from(rate.period.as_micros()));
        let wait = self.total(rate).saturating_sub(room).div_ceil(u128::from(rate.amount.max(1)));
        Span::from_micros(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// When nothing is used any more; the bucket is as of `as_of`.
    pub(super) fn fresh_at(self, rate: Rate, as_of: Timestamp) -> Timestamp {
        if self.used == 0 && self.part == 0 {
            return Timestamp::EPOCH;
        }
        as_of.plus(self.wait_for(rate, 0, 0))
    }

    /// The usage in whole units, rounded up.
    pub(super) fn whole(self) -> u64 {
        self.used.saturating_add(u64::from(self.part > 0))
    }

    pub(super) fn debit(&mut self, amount: u64) {
        self.used = self.used.saturating_add(amount).min(COUNT_MAX);
    }

    /// Refills for `elapsed` and takes `amount`. Returns whether the usage stays within `capacity`.
    #[inline]
    pub(super) fn debit_after(&mut self, rate: Rate, capacity: u64, amount: u64, elapsed: Span) -> bool {
        *self = self.after(rate, elapsed);
        self.debit(amount);
        self.whole() <= capacity
    }

    /// Corrects a permit, if it still can. Only a `young` permit gets units back: one since which the bucket has not
    /// refilled completely.
    pub(super) fn settle(&mut self, correction: Correction, young: bool) -> bool {
        let Correction { reserved, actual, .. } = correction;
        self.debit(actual.saturating_sub(reserved));
        if young {
            self.credit(reserved.saturating_sub(actual));
        }
        young || actual >= reserved
    }

    /// Gives units back, at most until the bucket is full.
    fn credit(&mut self, units: u64) {
        match self.used.checked_sub(units) {
            Some(used) => self.used = used,
            None => *self = Self::default(),
        }
    }

    /// The usage in 1/period of a unit.
    fn total(self, rate: Rate) -> u128 {
        u128::from(self.used)
            .saturating_mul(u128::from(rate.period.as_micros()))
            .saturating_add(u128::from(self.part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The 64-bit and the 128-bit arithmetic agree.
        #[test]
        fn narrow_and_wide_agree(used in 0..1_000_000u64, part in 0..60_000_000u64, amount in 1..1_000_000u64, elapsed in 0..u64::from(u32::MAX)) {
            let rate = Rate { amount, period: Span::from_mins(1) };
            let bucket = Bucket { used, part };
            let elapsed = Span::from_micros(elapsed);
            if let Some(narrow) = bucket.after_narrow(rate, elapsed) {
                prop_assert_eq!(narrow, bucket.after_wide(rate, elapsed));
            }
            if let Some(narrow) = bucket.wait_narrow(rate, used / 2) {
                prop_assert_eq!(narrow, bucket.wait_wide(rate, used / 2));
            }
        }

        /// I4: a wait is exact to the microsecond: the cost fits after it, and not one microsecond before.
        #[test]
        fn a_wait_is_exact(used in 0..2_000u64, part in 0..1_000_000u64, amount in 1..2_000u64, burst in 1..2_000u64, cost in 1..2_000u64) {
            prop_assume!(cost <= burst);
            let rate = Rate { amount, period: Span::from_secs(1) };
            let bucket = Bucket { used, part };
            let wait = bucket.wait_for(rate, burst, cost);
            let fits = |elapsed: Span| bucket.after(rate, elapsed).whole() + cost <= burst;
            prop_assert!(fits(wait));
            if wait > Span::ZERO {
                prop_assert!(!fits(Span::from_micros(wait.as_micros() - 1)));
            }
        }

        /// M3: refilling in many small steps gives exactly what one long step gives, at any odd rate.
        #[test]
        fn refill_in_steps_is_exact(amount in 1..900_000_000u64, steps in proptest::collection::vec(1..50_000u64, 1..40)) {
            let rate = Rate { amount, period: Span::from_secs(1) };
            let start = Bucket { used: 1_000_000_000, part: 0 };
            let stepped = steps.iter().fold(start, |bucket, step| bucket.after(rate, Span::from_micros(*step)));
            prop_assert_eq!(stepped, start.after(rate, Span::from_micros(steps.iter().sum())));
        }
    }
}
