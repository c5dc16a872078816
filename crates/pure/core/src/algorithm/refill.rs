//! The refill of a limit's bucket, with its divisions done once instead of at every take.

use std::hint::select_unpredictable;

use super::{Bucket, Rate};
use crate::Span;

/// The rate and the burst of a bucket, and how long they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refill {
    rate: Rate,
    burst: u64,
    /// How long one unit takes to refill, rounded up: less than one unit refills in any shorter time.
    unit_time: Span,
    /// How long an empty bucket takes to fill, rounded up.
    full_time: Span,
}

/// A bucket after a take.
pub(crate) struct Taken {
    pub(crate) bucket: Bucket,
    /// How long until it is certainly full.
    pub(crate) full_in: Span,
}

impl Refill {
    /// A refill of `amount` units in `period`, up to `burst`.
    pub(crate) fn new(amount: u64, period: Span, burst: u64) -> Self {
        let rate = Rate { amount, period };
        Self { rate, burst, unit_time: rate.time_of(1), full_time: rate.time_of(burst) }
    }

    pub(crate) fn unit_time(&self) -> Span {
        self.unit_time
    }

    pub(crate) fn full_time(&self) -> Span {
        self.full_time
    }

    /// The whole units that refill in this time, rounded up.
    pub(crate) fn refilled_in(&self, elapsed: Span) -> u64 {
        let total = u128::from(elapsed.as_micros()).saturating_mul(u128::from(self.rate.amount));
        let period = u128::from(self.rate.period.as_micros().max(1));
        u64::try_from(total.div_ceil(period)).unwrap_or(u64::MAX)
    }

    /// How long until nothing is used any more, rounded up: a part of a unit counts as one, plus a microsecond per unit.
    /// Precise enough for an expiry, and it needs no division.
    pub(crate) fn certainly_full_in(&self, bucket: Bucket) -> Span {
        let units = bucket.whole();
        if units > self.burst { bucket.wait_for(self.rate, 0, 0) } else { self.at_most_for(units) }
    }

    #[inline(always)]
    fn at_most_for(&self, units: u64) -> Span {
        self.unit_time.times_up_to(units, self.full_time)
    }

    /// The bucket refilled for `elapsed` and debited by `amount`; or, without room, how long until there is room.
    #[inline(always)]
    pub(crate) fn take(&self, bucket: Bucket, amount: u64, elapsed: Span) -> Result<Taken, Span> {
        match self.take_fast(bucket, amount, elapsed) {
            Some(taken) => Ok(taken),
            None => self.take_slow(bucket, amount, elapsed),
        }
    }

    /// The fast path: less than a unit has refilled, and there is room. It needs no division, and is the common case at
    /// a high rate of takes.
    #[inline(always)]
    fn take_fast(&self, bucket: Bucket, amount: u64, elapsed: Span) -> Option<Taken> {
        if elapsed >= self.unit_time {
            return None;
        }
        let drained = elapsed.as_micros().wrapping_mul(self.rate.amount);
        let (part, borrowed) = bucket.part.overflowing_sub(drained);
        // A branch here would be mispredicted too often.
        let part = part.wrapping_add(select_unpredictable(borrowed, self.rate.period.as_micros(), 0));
        let used = bucket.used.checked_sub(u64::from(borrowed))?.checked_add(amount)?;
        let units = used.checked_add(u64::from(part > 0))?;
        let taken = Taken { bucket: Bucket { used, part }, full_in: self.at_most_for(units) };
        (units <= self.burst).then_some(taken)
    }

    #[inline(never)]
    fn take_slow(&self, bucket: Bucket, amount: u64, elapsed: Span) -> Result<Taken, Span> {
        let refilled = bucket.after(self.rate, elapsed);
        let mut bucket = refilled;
        bucket.debit(amount);
        if amount > 0 && bucket.whole() > self.burst {
            return Err(refilled.wait_for(self.rate, self.burst, amount));
        }
        Ok(Taken { bucket, full_in: self.certainly_full_in(bucket) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The fast and the slow path agree, up to the last microsecond before a unit has refilled.
        #[test]
        fn fast_and_slow_path_agree(
            used in 0..50u64, part in 0..1_000_000u64, amount in 1..2_000u64, burst in 1..60u64,
            cost in 0..12u64, before in 1..1_000_000u64,
        ) {
            let refill = Refill::new(amount, Span::from_secs(1), burst);
            let bucket = Bucket { used, part };
            let elapsed = Span::from_micros(refill.unit_time.as_micros().saturating_sub(before % 700));
            if let Some(fast) = refill.take_fast(bucket, cost, elapsed) {
                let slow = refill.take_slow(bucket, cost, elapsed).ok();
                prop_assert_eq!(Some((fast.bucket, fast.full_in)), slow.map(|slow| (slow.bucket, slow.full_in)));
            }
        }
    }
}
