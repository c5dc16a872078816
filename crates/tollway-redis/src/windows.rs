//! The calendar windows that go with a request: the script knows no zones.
//!
//! Windows around the caller's clock, as far ahead as a take may wait, and around the times that an operation names. If the
//! script needs another one, it says for which time, and the request is sent again with it.

use tollway_core::bounds::WAIT_MAX;
use tollway_core::{Calendar, OwnedOperation, OwnedVerb, Span, Timestamp};

/// The most windows that are sent for one limit.
const WINDOWS_MAX: usize = 16;

/// Times whose windows a request carries.
#[derive(Clone, Debug)]
pub(crate) struct Times(Vec<Timestamp>);

impl Times {
    /// The times that these operations need if it is about `now`.
    pub(crate) fn of(operations: &[OwnedOperation], now: Timestamp) -> Self {
        let mut times = Self(vec![now, now.plus(WAIT_MAX)]);
        for operation in operations {
            match &operation.verb {
                OwnedVerb::Begin(booking, _)
                | OwnedVerb::Settle { booking, .. }
                | OwnedVerb::Return { booking, .. } => times.add(booking.at),
                _ => {}
            }
        }
        times
    }

    /// One more time, the last one asked for.
    pub(crate) fn add(&mut self, time: Timestamp) {
        if !self.0.contains(&time) {
            self.0.push(time);
        }
    }

    /// The windows of this calendar at the times, each with the one after it, as starts and ends.
    pub(crate) fn windows(&self, calendar: &Calendar) -> Vec<(Timestamp, Timestamp)> {
        let mut windows = Vec::new();
        // The times that were asked for last come first, so that they are never those left out.
        for time in self.0.iter().rev() {
            let this = calendar.window_at(*time);
            let next = calendar.window_at(this.1);
            let previous = calendar.window_at(this.0.minus(Span::from_micros(1)));
            for window in [this, next, previous] {
                if windows.len() < WINDOWS_MAX && !windows.contains(&window) {
                    windows.push(window);
                }
            }
        }
        windows
    }
}
