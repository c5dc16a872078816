//! Fixed windows: a count that begins anew at each edge.

use serde::{Deserialize, Serialize};

use crate::bounds::{COUNT_MAX, EDGE_PART_OF_PERIOD};
use crate::{Calendar, Span, Timestamp};

/// The window a meter is in, and what was taken in it. Never touched: all zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its first moment.
    pub start: Timestamp,
    /// The first moment after it. Kept, because a calendar is dear to ask.
    pub end: Timestamp,
    /// What was taken in it.
    pub count: u64,
}

impl Window {
    /// The window at `at`: this one, or the one that has begun since, empty.
    pub(super) fn at(self, calendar: &Calendar, at: Timestamp) -> Self {
        if at < self.end {
            return self;
        }
        let (start, end) = calendar.window_at(at);
        Self { start, end, count: 0 }
    }

    /// The earliest moment from `from` on at which `charge` fits and the window's edges are kept.
    pub(super) fn earliest(self, calendar: &Calendar, room: Room, from: Timestamp) -> Timestamp {
        let window = self.at(calendar, from);
        let edge = window.edge(room.edge);
        if room.fits(window.count) && from < window.end.minus(edge) {
            return from.max(window.start.plus(edge));
        }
        let next = window.at(calendar, window.end);
        next.start.plus(next.edge(room.edge))
    }

    /// The part of its beginning and its end in which nothing is granted: as wished, at most a twentieth.
    pub(super) fn edge(self, wished: Span) -> Span {
        if wished == Span::ZERO {
            return Span::ZERO;
        }
        wished.min(Span::from_micros(self.end.since(self.start).as_micros() / EDGE_PART_OF_PERIOD))
    }

    /// The window from first call at `at`: this one while it lasts, else none yet.
    pub(super) fn running_at(self, at: Timestamp) -> Self {
        if at < self.end { self } else { Self::default() }
    }

    /// The earliest moment from `from` on at which `charge` fits a window that starts at its first take.
    pub(super) fn earliest_unaligned(self, room: Room, from: Timestamp) -> Timestamp {
        let window = self.running_at(from);
        if room.fits(window.count) { from } else { window.end }
    }

    /// Counts `charge` at `at`, in a window of `period` that begins now if none is running.
    pub(super) fn debit_unaligned(&mut self, charge: u64, at: Timestamp, period: Span) {
        if charge == 0 {
            return;
        }
        if self.end <= at {
            *self = Self { start: at, end: at.plus(period), count: 0 };
        }
        self.debit(charge);
    }

    pub(super) fn debit(&mut self, charge: u64) {
        self.count = self.count.saturating_add(charge).min(COUNT_MAX);
    }

    /// Replaces what was reserved in this window by what was used; what was booked in another one is past.
    pub(super) fn settle(&mut self, booked_at: Timestamp, reserved: u64, actual: u64) -> bool {
        let here = self.start <= booked_at && booked_at < self.end;
        if here {
            self.count = self.count.saturating_sub(reserved);
            self.debit(actual);
        }
        here
    }
}

/// What a take asks of a window: whether its charge fits beside a count, and the edge to keep.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) amount: u64,
    pub(super) charge: u64,
    pub(super) edge: Span,
}

impl Room {
    fn fits(self, count: u64) -> bool {
        count.saturating_add(self.charge) <= self.amount
    }
}
