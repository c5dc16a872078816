//! A window or a bucket in 16 bytes, and a take from it in one step.

use crate::algorithm::{Bucket, Refill, Room, State, Window};
use crate::{Algorithm, Limit, Span, Timestamp};

/// Set in `second` if the meter is a window's; times, and the parts of a bucket's unit, end far below.
const IS_WINDOW: u64 = 1 << 63;

/// What a meter of a window or a bucket holds. Whose it is must be known otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedMeter {
    /// A window's count, or a bucket's whole units.
    first: u64,
    /// A window's end, or the rest of a bucket's units.
    second: u64,
}

/// A take: what is taken, how long after the last one, when, and the edge that windows keep.
#[derive(Clone, Copy)]
pub(super) struct Charge {
    pub(super) amount: u64,
    pub(super) elapsed: Span,
    pub(super) now: Timestamp,
    pub(super) edge: Span,
}

/// What a take leaves behind.
#[derive(Clone, Copy)]
pub(super) struct Debited {
    /// Until when the permit may begin.
    pub(super) good_until: Timestamp,
    /// In how long the meter is as good as new.
    pub(super) new_in: Span,
}

impl PackedMeter {
    /// In 16 bytes, if it fits.
    pub(super) fn pack(state: &State) -> Option<Self> {
        match state {
            State::Window(window) => Some(Self::of_window(*window)),
            State::Bucket(bucket) => Some(Self::of_bucket(*bucket)),
            State::Sliding(_) | State::Slots(_) => None,
        }
    }

    /// The two numbers that it is; the first is below 2^53.
    #[inline]
    pub(super) fn numbers(self) -> (u64, u64) {
        (self.first, self.second)
    }

    #[inline]
    pub(super) fn of_numbers(first: u64, second: u64) -> Self {
        Self { first, second }
    }

    pub(super) fn unpack(self) -> State {
        if self.is_window() { State::Window(self.window()) } else { State::Bucket(self.bucket()) }
    }

    /// What [`Limit::earliest`] and [`Limit::debit`] do, in one step: debits the meter, or says when there is room for it.
    /// Nothing if it is no meter of this limit's.
    #[inline(always)]
    pub(super) fn take(&mut self, limit: &Limit, charge: Charge) -> Option<Result<Debited, Timestamp>> {
        match (limit.refill(), self.is_window()) {
            (Some(refill), false) => Some(self.take_from_bucket(refill, charge)),
            (None, true) => self.take_from_window(limit, charge),
            (Some(_), true) | (None, false) => None,
        }
    }

    #[inline(always)]
    fn take_from_bucket(&mut self, refill: &Refill, charge: Charge) -> Result<Debited, Timestamp> {
        let Charge { amount, elapsed, now, .. } = charge;
        let taken = refill.take(self.bucket(), amount, elapsed).map_err(|wait| now.plus(wait))?;
        *self = Self::of_bucket(taken.bucket);
        Ok(Debited { good_until: Timestamp::MAX, new_in: taken.full_in })
    }

    #[inline]
    fn take_from_window(&mut self, limit: &Limit, charge: Charge) -> Option<Result<Debited, Timestamp>> {
        let Charge { amount: charge, now, edge, .. } = charge;
        let room = Room { amount: limit.amount(), charge, edge };
        let (taken, calendar) = match limit.algorithm() {
            Algorithm::Window(calendar) => (self.window().take(calendar, room, now), Some(calendar)),
            Algorithm::FromFirstCall(period) => (self.window().take_unaligned(*period, room, now), None),
            Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Concurrency { .. } => return None,
        };
        Some(taken.map(|window| {
            *self = Self::of_window(window);
            let good_until = calendar.map_or(window.end, |calendar| window.good_until(calendar, edge));
            Debited { good_until, new_in: window.end.since(now) }
        }))
    }

    /// When a bucket that is as of `as_of` is surely full; a window ends when it always did.
    pub(super) fn refilled_at(self, limit: &Limit, as_of: Timestamp) -> Timestamp {
        if self.is_window() { Timestamp::EPOCH } else { limit.surely_refilled_at(self.bucket(), as_of) }
    }

    #[inline]
    fn is_window(self) -> bool {
        self.second & IS_WINDOW != 0
    }

    #[inline]
    fn of_window(window: Window) -> Self {
        Self { first: window.count, second: window.end.as_micros() | IS_WINDOW }
    }

    #[inline]
    fn window(self) -> Window {
        Window { end: Timestamp::from_micros(self.second & !IS_WINDOW), count: self.first }
    }

    #[inline]
    fn of_bucket(bucket: Bucket) -> Self {
        Self { first: bucket.used, second: bucket.part }
    }

    #[inline]
    fn bucket(self) -> Bucket {
        Bucket { used: self.first, part: self.second }
    }
}
