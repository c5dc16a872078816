//! Fixed windows: a count that restarts with each window.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Advance, AlgorithmRules, Correction, Debited, State};
use crate::bounds::{COUNT_MAX, EDGE_PART_OF_PERIOD};
use crate::{Calendar, Limit, PermitId, Span, Timestamp};

/// A window that is aligned to the epoch or to a calendar.
#[derive(Clone, Copy)]
pub(crate) struct WindowRules<'l>(pub(crate) &'l Calendar);

impl AlgorithmRules for WindowRules<'_> {
    type State = Window;

    fn word(self) -> &'static str {
        "window"
    }

    fn period(self) -> Option<Span> {
        Some(self.0.nominal())
    }

    fn longest_memory(self, _: &Limit) -> Span {
        self.0.longest()
    }

    fn books_ahead(self) -> bool {
        true
    }

    /// It is what a limit is whose text names no algorithm.
    fn write(self, _: u64, rate: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.zone() {
            Some(zone) if zone.name() != "UTC" => write!(f, "{rate} in {zone}"),
            Some(_) | None => f.write_str(rate),
        }
    }

    fn fresh(self) -> State {
        State::Window(Window::default())
    }

    fn advance(self, _: &Limit, window: &mut Window, _: Timestamp, to: Timestamp) {
        *window = window.at(self.0, to);
    }

    fn earliest(self, _: &Limit, window: &Window, room: Room, _: Timestamp, from: Timestamp) -> Timestamp {
        window.earliest(self.0, room, from)
    }

    fn debit(self, _: &Limit, window: &mut Window, room: Room, span: Advance, _: PermitId) -> Debited {
        window.debit_at(self.0, room, span.at)
    }

    fn settle(self, _: &Limit, window: &mut Window, correction: Correction, _: Timestamp) -> bool {
        window.settle_at(self.0, correction)
    }

    /// Its window runs, less the edge.
    fn still_good(self, _: &Window, _: PermitId, booked_at: Timestamp, now: Timestamp, edge: Span) -> bool {
        let window = Window { end: self.0.window_at(booked_at).1, count: 0 };
        now < window.good_until(self.0, edge)
    }

    fn used(self, _: &Limit, window: &Window, _: Timestamp, at: Timestamp) -> u64 {
        window.running_at(at).count
    }

    fn fresh_at(self, _: &Limit, window: &Window, _: Timestamp) -> Timestamp {
        window.fresh_at()
    }

    fn resets_at(self, _: &Limit, window: &Window, _: Timestamp, at: Timestamp) -> Timestamp {
        window.at(self.0, at).end
    }
}

/// The current window and its count. A fresh one is all zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first time after it. Stored, because the calendar is expensive to compute.
    pub end: Timestamp,
    /// What was taken in it.
    pub count: u64,
}

impl Window {
    /// The window at `at`: this one, or a later one, empty.
    pub(super) fn at(self, calendar: &Calendar, at: Timestamp) -> Self {
        if at < self.end {
            return self;
        }
        Self { end: calendar.window_at(at).1, count: 0 }
    }

    /// The window debited by `amount` at `now`; or, without room, the time when there is room.
    #[inline]
    pub(crate) fn take(self, calendar: &Calendar, room: Room, now: Timestamp) -> Result<Self, Timestamp> {
        let mut window = self.at(calendar, now);
        if room.amount > 0 {
            let earliest = window.earliest(calendar, room, now);
            if earliest > now {
                return Err(earliest);
            }
        }
        window.debit(room.amount);
        Ok(window)
    }

    /// The same for a window of `period` that begins with its first take.
    #[inline]
    pub(crate) fn take_unaligned(self, period: Span, room: Room, now: Timestamp) -> Result<Self, Timestamp> {
        let mut window = self.running_at(now);
        if room.amount > 0 && !room.fits(window.count) {
            return Err(window.end);
        }
        window.debit_unaligned(room.amount, now, period);
        Ok(window)
    }

    /// The earliest time from `from` on at which `amount` fits, outside the window's edges.
    pub(super) fn earliest(self, calendar: &Calendar, room: Room, from: Timestamp) -> Timestamp {
        let window = self.at(calendar, from);
        if room.edge == Span::ZERO {
            return if room.fits(window.count) { from } else { window.end };
        }
        let (start, edge) = window.edge(calendar, room.edge);
        if room.fits(window.count) && from < window.end.minus(edge) {
            return from.max(start.plus(edge));
        }
        let (start, edge) = window.at(calendar, window.end).edge(calendar, room.edge);
        start.plus(edge)
    }

    /// Until when a permit of this window may begin: its end less the edge.
    pub(crate) fn good_until(self, calendar: &Calendar, wished: Span) -> Timestamp {
        if wished == Span::ZERO { self.end } else { self.end.minus(self.edge(calendar, wished).1) }
    }

    /// Its start and its edge: the time at its start and end in which nothing is granted, at most a twentieth.
    fn edge(self, calendar: &Calendar, wished: Span) -> (Timestamp, Span) {
        let (start, end) = calendar.window_at(self.end.minus(Span::from_micros(1)));
        let most = Span::from_micros(end.since(start).as_micros() / EDGE_PART_OF_PERIOD);
        (start, wished.min(most))
    }

    /// The `from first call` window at `at`: this one while it runs, else an empty one.
    pub(super) fn running_at(self, at: Timestamp) -> Self {
        if at < self.end { self } else { Self::default() }
    }

    /// The earliest time from `from` on at which `amount` fits a window that starts at its first take.
    pub(super) fn earliest_unaligned(self, room: Room, from: Timestamp) -> Timestamp {
        let window = self.running_at(from);
        if room.fits(window.count) { from } else { window.end }
    }

    /// Counts `amount` at `at`, in a window of `period` that begins now if none is running.
    pub(super) fn debit_unaligned(&mut self, amount: u64, at: Timestamp, period: Span) {
        if amount == 0 {
            return;
        }
        if self.end <= at {
            *self = Self { end: at.plus(period), count: 0 };
        }
        self.debit(amount);
    }

    pub(super) fn debit(&mut self, amount: u64) {
        self.count = self.count.saturating_add(amount).min(COUNT_MAX);
    }

    /// Advances to the window at `at` and debits it.
    #[inline]
    pub(super) fn debit_at(&mut self, calendar: &Calendar, room: Room, at: Timestamp) -> Debited {
        *self = self.at(calendar, at);
        self.debit(room.amount);
        let good_until = self.good_until(calendar, room.edge);
        Debited { good_until, expires: self.fresh_at(), holds: self.count <= room.capacity }
    }

    /// The same for a window of `period` that begins with its first take.
    pub(super) fn debit_unaligned_at(&mut self, period: Span, room: Room, at: Timestamp) -> Debited {
        *self = self.running_at(at);
        self.debit_unaligned(room.amount, at, period);
        Debited { good_until: self.end, expires: self.end, holds: self.count <= room.capacity }
    }

    /// When an aligned window equals a fresh one: at once if nothing was taken in it.
    #[inline]
    pub(super) fn fresh_at(self) -> Timestamp {
        if self.count == 0 { Timestamp::EPOCH } else { self.end }
    }

    /// Corrects a permit booked in this window. Returns whether it was.
    pub(super) fn settle_at(&mut self, calendar: &Calendar, correction: Correction) -> bool {
        let here = calendar.window_at(correction.booked_at).1 == self.end;
        self.settle_if(here, correction)
    }

    /// The same for a window of `period` that begins with its first take.
    pub(super) fn settle_unaligned(&mut self, period: Span, correction: Correction) -> bool {
        self.settle_if(self.began_for(correction.booked_at, period), correction)
    }

    fn settle_if(&mut self, here: bool, correction: Correction) -> bool {
        if here {
            self.count = self.count.saturating_sub(correction.reserved);
            self.debit(correction.actual);
        }
        here
    }

    /// Whether a permit booked at `booked_at` belongs to this `from first call` window.
    pub(super) fn began_for(self, booked_at: Timestamp, period: Span) -> bool {
        booked_at < self.end && self.end <= booked_at.plus(period)
    }
}

/// What a take needs of a window: the window's capacity, the amount to take, and the edge.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) capacity: u64,
    pub(crate) amount: u64,
    pub(crate) edge: Span,
}

impl Room {
    fn fits(self, count: u64) -> bool {
        count.saturating_add(self.amount) <= self.capacity
    }
}
