//! A fixed window that starts at the first take; its state is a [`Window`].

use super::{Advance, AlgorithmRules, Correction, Debited, Room, State, Window};
use crate::{Limit, PermitId, Span, Timestamp};

/// A window of this length.
#[derive(Clone, Copy)]
pub(crate) struct FromFirstCallRules(pub(crate) Span);

impl AlgorithmRules for FromFirstCallRules {
    type State = Window;

    fn word(self) -> &'static str {
        "from first call"
    }

    fn period(self) -> Option<Span> {
        Some(self.0)
    }

    fn longest_memory(self, _: &Limit) -> Span {
        self.0
    }

    fn books_ahead(self) -> bool {
        true
    }

    fn fresh(self) -> State {
        State::Window(Window::default())
    }

    fn advance(self, _: &Limit, window: &mut Window, _: Timestamp, to: Timestamp) {
        *window = window.running_at(to);
    }

    fn earliest(self, _: &Limit, window: &Window, room: Room, _: Timestamp, from: Timestamp) -> Timestamp {
        window.earliest_unaligned(room, from)
    }

    fn debit(self, _: &Limit, window: &mut Window, room: Room, span: Advance, _: PermitId) -> Debited {
        window.debit_unaligned_at(self.0, room, span.at)
    }

    fn settle(self, _: &Limit, window: &mut Window, correction: Correction, _: Timestamp) -> bool {
        window.settle_unaligned(self.0, correction)
    }

    /// Its window runs. An edge is for windows whose end another clock decides.
    fn still_good(self, window: &Window, _: PermitId, booked_at: Timestamp, now: Timestamp, _: Span) -> bool {
        now < window.end && window.began_for(booked_at, self.0)
    }

    fn used(self, _: &Limit, window: &Window, _: Timestamp, at: Timestamp) -> u64 {
        window.running_at(at).count
    }

    fn fresh_at(self, _: &Limit, window: &Window, _: Timestamp) -> Timestamp {
        window.end
    }
}
