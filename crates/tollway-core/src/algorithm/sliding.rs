//! The two-window weighted count: what the last full period holds, taking the earlier window as evenly filled.

use serde::{Deserialize, Serialize};

use super::{Correction, Debited};
use crate::bounds::COUNT_MAX;
use crate::{Span, Timestamp};

/// The window a meter is in, what was taken in it, and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sliding {
    /// The first moment of the current window, a multiple of the period.
    pub start: Timestamp,
    /// What was taken in the window before.
    pub previous: u64,
    /// What was taken in the current one.
    pub current: u64,
}

impl Sliding {
    /// The two windows at `at`.
    pub(super) fn at(self, period: Span, at: Timestamp) -> Self {
        if at < self.start.plus(period) {
            return self;
        }
        let length = period.as_micros().max(1);
        let start = Timestamp::from_micros(
            at.as_micros().saturating_sub(at.as_micros().checked_rem(length).unwrap_or(0)),
        );
        let adjacent = start == self.start.plus(period);
        Self { start, previous: if adjacent { self.current } else { 0 }, current: 0 }
    }

    /// The weighted count at `at`, in units times the period, so that nothing is rounded.
    fn weighted(self, period: Span, at: Timestamp) -> u128 {
        let now = self.at(period, at);
        let left = period.as_micros().saturating_sub(at.since(now.start).as_micros());
        let previous = u128::from(now.previous).saturating_mul(u128::from(left));
        previous.saturating_add(u128::from(now.current).saturating_mul(u128::from(period.as_micros())))
    }

    /// The earliest moment from `from` on at which `charge` fits, if nobody takes before.
    pub(super) fn earliest(self, period: Span, amount: u64, charge: u64, from: Timestamp) -> Timestamp {
        let mut windows = self.at(period, from);
        // At most two steps: in the third window nothing is left of the first.
        for _ in 0..2 {
            if let Some(room) = amount.saturating_sub(charge).checked_sub(windows.current) {
                return from.max(windows.start.plus(fades_to(windows.previous, room, period)));
            }
            windows = windows.at(period, windows.start.plus(period));
        }
        from.max(windows.start)
    }

    pub(super) fn debit(&mut self, charge: u64) {
        self.current = self.current.saturating_add(charge).min(COUNT_MAX);
    }

    /// The two windows at `at`, with `charge` taken from the current one.
    pub(super) fn debit_at(&mut self, period: Span, amount: u64, charge: u64, at: Timestamp) -> Debited {
        *self = self.at(period, at);
        self.debit(charge);
        let holds = self.used(period, at) <= amount;
        Debited { good_until: Timestamp::MAX, expires: self.good_as_new_at(period), holds }
    }

    /// The weighted count at `at`, rounded up to whole units.
    pub(super) fn used(self, period: Span, at: Timestamp) -> u64 {
        let weighted = self.weighted(period, at).div_ceil(u128::from(period.as_micros().max(1)));
        u64::try_from(weighted).unwrap_or(u64::MAX)
    }

    /// Corrects a permit of the current window; says whether it was booked in it.
    pub(super) fn settle(&mut self, period: Span, correction: Correction) -> bool {
        let Correction { booked_at, reserved, actual } = correction;
        let here = self.start <= booked_at && booked_at < self.start.plus(period);
        if here {
            self.current = self.current.saturating_sub(reserved);
            self.debit(actual);
        }
        here
    }

    pub(super) fn good_as_new_at(self, period: Span) -> Timestamp {
        match (self.previous, self.current) {
            (0, 0) => Timestamp::EPOCH,
            (_, 0) => self.start.plus(period),
            _ => self.start.plus(period.times(2)),
        }
    }
}

/// How far into a window the weight of `previous` has faded to `room` or less: rounded up, against the caller.
fn fades_to(previous: u64, room: u64, period: Span) -> Span {
    if previous <= room {
        return Span::ZERO;
    }
    let length = u128::from(period.as_micros());
    let kept = u128::from(room).saturating_mul(length).checked_div(u128::from(previous)).unwrap_or(0);
    Span::from_micros(u64::try_from(length.saturating_sub(kept)).unwrap_or(u64::MAX))
}
