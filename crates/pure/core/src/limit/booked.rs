//! What a reading says of the window that runs, when takes are booked past it.

use super::Limit;
use crate::{Span, Timestamp};

impl Limit {
    /// How far the store's clock may be ahead of a reader's without being a booking.
    pub const CLOCKS_APART_MAX: Span = Span::from_millis(50);

    /// The beginning of the window that contains `as_of`.
    pub fn window_start(&self, as_of: Timestamp, resets_at: Timestamp) -> Timestamp {
        match self.calendar() {
            Some(calendar) => calendar.window_at(as_of).0,
            None => resets_at.minus(self.period().unwrap_or(Span::ZERO)),
        }
    }

    /// The end of the window that runs now, if takes are booked past it, up to `as_of`. The count of the running window is not
    /// stored then: its meter shows the window of the last booking.
    pub fn closed_until(&self, as_of: Timestamp, resets_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if as_of.since(now) <= Self::CLOCKS_APART_MAX {
            return None;
        }
        let end = match self.calendar() {
            Some(calendar) => calendar.window_at(now).1,
            // It begins with the first of the takes that are booked.
            None if self.is_window() => self.window_start(as_of, resets_at),
            None => return None,
        };
        (end > now && end <= as_of).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_bookings_have_passed_is_closed_until_its_end() {
        let minute = |minute: u64, second: u64| Timestamp::from_secs(28_000_000 * 60 + 60 * minute + second);
        let limit: Limit = "200 requests / minute".parse().unwrap();
        let closed = |as_of, now| limit.closed_until(as_of, minute(2, 0), now);
        assert_eq!(closed(minute(1, 0), minute(0, 40)), Some(minute(1, 0)));
        // Booked two windows ahead: the running one ends first.
        assert_eq!(closed(minute(1, 7), minute(0, 40)), Some(minute(1, 0)));
        assert_eq!(closed(minute(0, 50), minute(0, 40)), None, "booked within the running window");
        assert_eq!(closed(minute(0, 40), minute(0, 40)), None);
        assert_eq!(limit.window_start(minute(1, 7), minute(2, 0)), minute(1, 0));
        let bucket: Limit = "200 requests / minute bucket".parse().unwrap();
        assert_eq!(bucket.closed_until(minute(1, 7), minute(2, 0), minute(0, 40)), None);
    }
}
