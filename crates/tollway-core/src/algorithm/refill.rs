//! How the bucket of one limit refills: all that a take must know of it, side by side and divided once.

use std::hint::select_unpredictable;

use super::{Bucket, Rate};
use crate::Span;

/// The rate and the burst of a bucket, and how long they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refill {
    rate: Rate,
    burst: u64,
    /// How long one unit takes to come back, rounded up: in any shorter time less than one does.
    unit_time: Span,
    /// How long an empty bucket takes to fill, rounded up.
    full_time: Span,
}

/// A bucket after a take.
pub(crate) struct Taken {
    pub(crate) bucket: Bucket,
    /// In how long it is surely full again.
    pub(crate) full_in: Span,
}

impl Refill {
    /// Of `amount` units in `period`, saved up to `burst`.
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

    /// The whole units that come back in this time, rounded up.
    pub(crate) fn refilled_in(&self, elapsed: Span) -> u64 {
        let total = u128::from(elapsed.as_micros()).saturating_mul(u128::from(self.rate.amount));
        let period = u128::from(self.rate.period.as_micros().max(1));
        u64::try_from(total.div_ceil(period)).unwrap_or(u64::MAX)
    }

    /// In how long nothing of a bucket is used any more. Or longer, by less than one unit takes and a microsecond for each: a
    /// part of a unit counts as a whole one. Good enough to forget it by, and needs no division.
    pub(crate) fn surely_full_in(&self, bucket: Bucket) -> Span {
        let units = bucket.whole();
        if units > self.burst { bucket.wait_for(self.rate, 0, 0) } else { self.at_most_for(units) }
    }

    #[inline(always)]
    fn at_most_for(&self, units: u64) -> Span {
        self.unit_time.times_up_to(units, self.full_time)
    }

    /// The bucket refilled for `elapsed` and less `charge`; or, if there is no room for that, how long until there is.
    #[inline(always)]
    pub(crate) fn take(&self, bucket: Bucket, charge: u64, elapsed: Span) -> Result<Taken, Span> {
        match self.take_soon(bucket, charge, elapsed) {
            Some(taken) => Ok(taken),
            None => self.take_late(bucket, charge, elapsed),
        }
    }

    /// If less than a unit has come back, and there is room. It needs no division and is so whenever it matters: whoever
    /// takes that often is why a take must be short.
    #[inline(always)]
    fn take_soon(&self, bucket: Bucket, charge: u64, elapsed: Span) -> Option<Taken> {
        if elapsed >= self.unit_time {
            return None;
        }
        let drained = elapsed.as_micros().wrapping_mul(self.rate.amount);
        let (part, borrowed) = bucket.part.overflowing_sub(drained);
        // As good as chance: a jump would be guessed wrong too often.
        let part = part.wrapping_add(select_unpredictable(borrowed, self.rate.period.as_micros(), 0));
        let used = bucket.used.checked_sub(u64::from(borrowed))?.checked_add(charge)?;
        let units = used.checked_add(u64::from(part > 0))?;
        let taken = Taken { bucket: Bucket { used, part }, full_in: self.at_most_for(units) };
        (units <= self.burst).then_some(taken)
    }

    #[inline(never)]
    fn take_late(&self, bucket: Bucket, charge: u64, elapsed: Span) -> Result<Taken, Span> {
        let refilled = bucket.after(self.rate, elapsed);
        let mut bucket = refilled;
        bucket.debit(charge);
        if charge > 0 && bucket.whole() > self.burst {
            return Err(refilled.wait_for(self.rate, self.burst, charge));
        }
        Ok(Taken { bucket, full_in: self.surely_full_in(bucket) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The short way and the long one are one function, up to the last microsecond before a unit has come back.
        #[test]
        fn soon_and_late_agree(
            used in 0..50u64, part in 0..1_000_000u64, amount in 1..2_000u64, burst in 1..60u64,
            charge in 0..12u64, before in 1..1_000_000u64,
        ) {
            let refill = Refill::new(amount, Span::from_secs(1), burst);
            let bucket = Bucket { used, part };
            let elapsed = Span::from_micros(refill.unit_time.as_micros().saturating_sub(before % 700));
            if let Some(soon) = refill.take_soon(bucket, charge, elapsed) {
                let late = refill.take_late(bucket, charge, elapsed).ok();
                prop_assert_eq!(Some((soon.bucket, soon.full_in)), late.map(|late| (late.bucket, late.full_in)));
            }
        }
    }
}
