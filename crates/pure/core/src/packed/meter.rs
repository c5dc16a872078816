//! A window or a bucket packed into 16 bytes, debited in one step.

use crate::algorithm::{Bucket, Refill, Room, State, Window};
use crate::{Algorithm, Limit, Span, Timestamp};

/// Set in `second` for a window. Times and parts of a bucket's unit never reach this bit.
const IS_WINDOW: u64 = 1 << 63;

/// The state of a window or a bucket, without the identity of its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedMeter {
    /// A window's count, or a bucket's whole units.
    first: u64,
    /// A window's end, or the rest of a bucket's units.
    second: u64,
}

/// A debit: the amount, the time since the last one, the time, and the edge of windows.
#[derive(Clone, Copy)]
pub(super) struct MeterDebit {
    pub(super) amount: u64,
    pub(super) elapsed: Span,
    pub(super) now: Timestamp,
    pub(super) edge: Span,
}

/// The result of a debit.
#[derive(Clone, Copy)]
pub(super) struct Debited {
    pub(super) meter: PackedMeter,
    /// Until when the permit may begin.
    pub(super) good_until: Timestamp,
    /// How long until the meter equals a fresh one.
    pub(super) fresh_in: Span,
}

impl PackedMeter {
    /// Packs the state, if it fits.
    pub(super) fn pack(state: &State) -> Option<Self> {
        match state {
            State::Window(window) => Some(Self::of_window(*window)),
            State::Bucket(bucket) => Some(Self::of_bucket(*bucket)),
            State::Sliding(_) | State::Adaptive(_) | State::Slots(_) => None,
        }
    }

    /// Its two numbers; the first is below 2^53.
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

    /// [`Limit::earliest`] and [`Limit::debit`] in one step: the meter debited, or when there is room.
    /// `None` if the meter is of another kind than the limit.
    #[inline(always)]
    pub(super) fn take(self, limit: &Limit, debit: MeterDebit) -> Option<Result<Debited, Timestamp>> {
        let MeterDebit { amount, elapsed, now, edge } = debit;
        match (limit.refill(), self.is_window()) {
            (Some(refill), false) => Some(self.take_from_bucket(refill, amount, elapsed, now)),
            (None, true) => {
                self.take_from_window(limit, Room { capacity: limit.capacity(), amount, edge }, now)
            }
            (Some(_), true) | (None, false) => None,
        }
    }

    #[inline(always)]
    fn take_from_bucket(
        self,
        refill: &Refill,
        amount: u64,
        elapsed: Span,
        now: Timestamp,
    ) -> Result<Debited, Timestamp> {
        let taken = refill.take(self.bucket(), amount, elapsed).map_err(|wait| now.plus(wait))?;
        let meter = Self::of_bucket(taken.bucket);
        Ok(Debited { meter, good_until: Timestamp::MAX, fresh_in: taken.full_in })
    }

    /// Called with values, not with references to the caller's: a bucket's numbers then stay in registers.
    #[inline(never)]
    fn take_from_window(
        self,
        limit: &Limit,
        room: Room,
        now: Timestamp,
    ) -> Option<Result<Debited, Timestamp>> {
        let (taken, calendar) = match limit.algorithm() {
            Algorithm::Window(calendar) => (self.window().take(calendar, room, now), Some(calendar)),
            Algorithm::FromFirstCall(period) => (self.window().take_unaligned(*period, room, now), None),
            _ => return None,
        };
        Some(taken.map(|window| {
            let good_until = calendar.map_or(window.end, |calendar| window.good_until(calendar, room.edge));
            Debited { meter: Self::of_window(window), good_until, fresh_in: window.end.since(now) }
        }))
    }

    /// When a bucket that is as of `as_of` is certainly full. The end of a window never moves.
    pub(super) fn refilled_at(self, limit: &Limit, as_of: Timestamp) -> Timestamp {
        if self.is_window() { Timestamp::EPOCH } else { limit.certainly_refilled_at(self.bucket(), as_of) }
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
