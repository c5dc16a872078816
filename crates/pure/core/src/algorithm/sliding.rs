//! The sliding window: a weighted count of two windows, the earlier one assumed evenly filled.

use serde::{Deserialize, Serialize};

use super::{Advance, AlgorithmRules, Correction, Debited, Room, State};
use crate::bounds::COUNT_MAX;
use crate::{Limit, PermitId, Span, Timestamp};

/// A sliding window of this length.
#[derive(Clone, Copy)]
pub(crate) struct SlidingRules(pub(crate) Span);

impl AlgorithmRules for SlidingRules {
    type State = Sliding;

    fn word(self) -> &'static str {
        "sliding"
    }

    fn period(self) -> Option<Span> {
        Some(self.0)
    }

    /// A take weighs in the window after its own, too.
    fn longest_memory(self, _: &Limit) -> Span {
        self.0.times(2)
    }

    /// Its room depends on later takes.
    fn books_ahead(self) -> bool {
        false
    }

    fn fresh(self) -> State {
        State::Sliding(Sliding::default())
    }

    fn advance(self, _: &Limit, sliding: &mut Sliding, _: Timestamp, to: Timestamp) {
        *sliding = sliding.at(self.0, to);
    }

    fn earliest(self, _: &Limit, sliding: &Sliding, room: Room, _: Timestamp, from: Timestamp) -> Timestamp {
        sliding.earliest(self.0, room.capacity, room.amount, from)
    }

    fn debit(self, _: &Limit, sliding: &mut Sliding, room: Room, span: Advance, _: PermitId) -> Debited {
        sliding.debit_at(self.0, room.capacity, room.amount, span.at)
    }

    fn settle(self, _: &Limit, sliding: &mut Sliding, correction: Correction, _: Timestamp) -> bool {
        sliding.settle(self.0, correction)
    }

    fn used(self, _: &Limit, sliding: &Sliding, _: Timestamp, at: Timestamp) -> u64 {
        sliding.used(self.0, at)
    }

    fn fresh_at(self, _: &Limit, sliding: &Sliding, _: Timestamp) -> Timestamp {
        sliding.fresh_at(self.0)
    }
}

/// The current window's start, its count, and the count of the window before.
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

    /// The weighted count at `at` times the period, so that nothing is rounded.
    fn weighted(self, period: Span, at: Timestamp) -> u128 {
        let now = self.at(period, at);
        let left = period.as_micros().saturating_sub(at.since(now.start).as_micros());
        let previous = u128::from(now.previous).saturating_mul(u128::from(left));
        previous.saturating_add(u128::from(now.current).saturating_mul(u128::from(period.as_micros())))
    }

    /// The earliest time from `from` on at which `amount` fits, without a take before.
    pub(super) fn earliest(self, period: Span, capacity: u64, amount: u64, from: Timestamp) -> Timestamp {
        let mut windows = self.at(period, from);
        // Two steps suffice: the third window no longer overlaps the first.
        for _ in 0..2 {
            if let Some(room) = capacity.saturating_sub(amount).checked_sub(windows.current) {
                return from.max(windows.start.plus(fades_to(windows.previous, room, period)));
            }
            windows = windows.at(period, windows.start.plus(period));
        }
        from.max(windows.start)
    }

    pub(super) fn debit(&mut self, amount: u64) {
        self.current = self.current.saturating_add(amount).min(COUNT_MAX);
    }

    /// Advances to `at` and debits the current window by `amount`.
    pub(super) fn debit_at(&mut self, period: Span, capacity: u64, amount: u64, at: Timestamp) -> Debited {
        *self = self.at(period, at);
        self.debit(amount);
        let holds = self.used(period, at) <= capacity;
        Debited { good_until: Timestamp::MAX, expires: self.fresh_at(period), holds }
    }

    /// The weighted count at `at`, rounded up to whole units.
    pub(super) fn used(self, period: Span, at: Timestamp) -> u64 {
        let weighted = self.weighted(period, at).div_ceil(u128::from(period.as_micros().max(1)));
        u64::try_from(weighted).unwrap_or(u64::MAX)
    }

    /// Corrects a permit booked in the current window. Returns whether it was.
    pub(super) fn settle(&mut self, period: Span, correction: Correction) -> bool {
        let Correction { booked_at, reserved, actual } = correction;
        let here = self.start <= booked_at && booked_at < self.start.plus(period);
        if here {
            self.current = self.current.saturating_sub(reserved);
            self.debit(actual);
        }
        here
    }

    pub(super) fn fresh_at(self, period: Span) -> Timestamp {
        match (self.previous, self.current) {
            (0, 0) => Timestamp::EPOCH,
            (_, 0) => self.start.plus(period),
            _ => self.start.plus(period.times(2)),
        }
    }
}

/// How far into a window the weighted `previous` falls to `room` or less, rounded up.
fn fades_to(previous: u64, room: u64, period: Span) -> Span {
    if previous <= room {
        return Span::ZERO;
    }
    let length = u128::from(period.as_micros());
    let kept = u128::from(room).saturating_mul(length).checked_div(u128::from(previous)).unwrap_or(0);
    Span::from_micros(u64::try_from(length.saturating_sub(kept)).unwrap_or(u64::MAX))
}
