//! The calendar windows that go with a request: the script knows no zones.
//!
//! Windows around the caller's clock, as far ahead as a take may wait, and at the times that an operation names. If the
//! script needs another one, it says for which time, and the request is sent again with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tollway_core::{Action, Calendar, Operation, Span, Timestamp};

/// How many calendars are remembered, and how many windows of each.
const CALENDARS_MAX: usize = 1_024;
const WINDOWS_MAX: usize = 16;

/// How many windows ahead of now: a take may wait a day, which can be over two midnights, and the one after that.
const AHEAD: usize = 3;

/// A window: its start, and its end, which is the start of the next.
pub(crate) type Window = (Timestamp, Timestamp);

/// Times whose windows a request carries: at most one for each operation of its calls and each time it is sent, and now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    now: Timestamp,
    others: Vec<Timestamp>,
}

impl Times {
    /// The times that these operations need if it is about `now`.
    pub(crate) fn of(operations: &[Operation], now: Timestamp) -> Self {
        let booked_at = |operation: &Operation| match &operation.action {
            Action::Begin(booking, _) | Action::Settle { booking, .. } | Action::Return { booking, .. } => {
                Some(booking.at)
            }
            _ => None,
        };
        Self { now, others: operations.iter().filter_map(booked_at).collect() }
    }

    /// Those of both; now is the later one's.
    pub(crate) fn and(mut self, others: &Self) -> Self {
        self.now = self.now.max(others.now);
        self.others.extend_from_slice(&others.others);
        self
    }

    /// Adds a time that the script requested.
    pub(crate) fn add(&mut self, time: Timestamp) {
        self.others.push(time);
    }
}

/// A cache of calendar windows: computing them is expensive, and every call needs them.
#[derive(Debug, Default)]
pub(crate) struct Calendars(Mutex<HashMap<u32, Vec<Window>>>);

impl Calendars {
    /// The windows at these times of the calendar of the limit with this identity.
    pub(crate) fn windows(&self, identity: u32, calendar: &Calendar, times: &Times) -> Vec<Window> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CALENDARS_MAX && !known.contains_key(&identity) {
            known.clear();
        }
        let known = known.entry(identity).or_default();
        let mut windows = Vec::new();
        let mut add = |time: Timestamp| {
            let window = window_at(known, calendar, time);
            if !windows.contains(&window) {
                windows.push(window);
            }
            window
        };
        let this = add(times.now);
        add(this.0.minus(Span::from_micros(1)));
        (0..AHEAD).fold(this, |window, _| add(window.1));
        for time in &times.others {
            let window = add(*time);
            add(window.1);
        }
        windows
    }
}

fn window_at(known: &mut Vec<Window>, calendar: &Calendar, time: Timestamp) -> Window {
    if let Some(window) = known.iter().find(|window| window.0 <= time && time < window.1) {
        return *window;
    }
    if known.len() >= WINDOWS_MAX {
        known.clear();
    }
    let window = calendar.window_at(time);
    known.push(window);
    window
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollway_core::Zone;
    use tollway_core::bounds::WAIT_MAX;

    #[test]
    fn windows_are_contiguous() {
        let (calendars, calendar) =
            (Calendars::default(), Calendar::Day(Zone::named("America/Los_Angeles").unwrap()));
        for hour in 0..24 * 400 {
            let now = Timestamp::from_secs(1_767_225_600 + hour * 3_600);
            let mut windows = calendars.windows(7, &calendar, &Times { now, others: Vec::new() });
            windows.sort_unstable();
            assert!(windows.contains(&calendar.window_at(now)));
            assert!(windows.contains(&calendar.window_at(calendar.window_at(now.plus(WAIT_MAX)).1)));
            assert!(windows.windows(2).all(|pair| pair[0].1 == pair[1].0), "no gap: {windows:?}");
            assert!(windows[0].1 <= now);
        }
    }
}
