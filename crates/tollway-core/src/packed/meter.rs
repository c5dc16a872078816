//! A window or a bucket in 16 bytes, and a take from it in one step.

use crate::algorithm::{Bucket, Debited, Room, State, Window};
use crate::{Algorithm, Limit, Span, Timestamp};

/// Set in `first` if the meter is a window's; counts and times end far below.
const IS_WINDOW: u64 = 1 << 63;

/// What a meter of a window or a bucket holds. Whose it is must be known otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PackedMeter {
    /// A window's count, or a bucket's whole units.
    first: u64,
    /// A window's end, or the rest of a bucket's units.
    second: u64,
}

/// A take: from when to when the meter is brought, what is taken there, and the edge that windows keep.
#[derive(Clone, Copy)]
pub(super) struct Charge {
    pub(super) amount: u64,
    pub(super) as_of: Timestamp,
    pub(super) now: Timestamp,
    pub(super) edge: Span,
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

    pub(super) fn unpack(self) -> State {
        if self.is_window() { State::Window(self.window()) } else { State::Bucket(self.bucket()) }
    }

    /// What [`Limit::earliest`] and [`Limit::debit`] do, in one step: debits the meter, or says when there is room for it.
    /// Nothing if it is no meter of this limit's.
    #[inline(always)]
    pub(super) fn take(&mut self, limit: &Limit, charge: Charge) -> Option<Result<Debited, Timestamp>> {
        let Charge { amount: charge, as_of, now, edge } = charge;
        let room = Room { amount: limit.amount(), charge, edge };
        match limit.algorithm() {
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) if !self.is_window() => {
                let rate = limit.rate(*period);
                Some(match self.bucket().take(rate, limit.capacity(), charge, now.since(as_of)) {
                    Ok(bucket) => {
                        *self = Self::of_bucket(bucket);
                        let expires = limit.surely_refilled_at(bucket, rate, now);
                        Ok(Debited { good_until: Timestamp::MAX, expires, holds: true })
                    }
                    Err(wait) => Err(now.plus(wait)),
                })
            }
            Algorithm::Window(calendar) if self.is_window() => {
                let taken = self.window().take(calendar, room, now);
                Some(taken.map(|window| self.debited(window, window.good_until(calendar, edge))))
            }
            Algorithm::FromFirstCall(period) if self.is_window() => {
                let taken = self.window().take_unaligned(*period, room, now);
                Some(taken.map(|window| self.debited(window, window.end)))
            }
            _ => None,
        }
    }

    /// When a bucket that is as of `as_of` is surely full; a window ends when it always did.
    pub(super) fn refilled_at(self, limit: &Limit, as_of: Timestamp) -> Timestamp {
        match limit.algorithm() {
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) if !self.is_window() => {
                limit.surely_refilled_at(self.bucket(), limit.rate(*period), as_of)
            }
            _ => Timestamp::EPOCH,
        }
    }

    #[inline]
    fn debited(&mut self, window: Window, good_until: Timestamp) -> Debited {
        *self = Self::of_window(window);
        Debited { good_until, expires: window.end, holds: true }
    }

    #[inline]
    fn is_window(self) -> bool {
        self.first & IS_WINDOW != 0
    }

    #[inline]
    fn of_window(window: Window) -> Self {
        Self { first: window.count | IS_WINDOW, second: window.end.as_micros() }
    }

    #[inline]
    fn window(self) -> Window {
        Window { end: Timestamp::from_micros(self.second), count: self.first & !IS_WINDOW }
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
