//! Where a later calendar window begins, without visiting the windows before it.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tollway_core::bounds::{COUNT_MAX, EDGE_PART_OF_PERIOD};
use tollway_core::{Calendar, Span, Timestamp};

/// A year of the Gregorian calendar has 365.2425 days on average; a month is a twelfth of it.
const AVERAGE_MONTH: Span = Span::from_secs(2_629_746);
const DAY: Span = Span::from_days(1);
const WEEK: Span = Span::from_days(7);

/// Clock or calendar windows that grant nothing within the edge at their ends.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    pub(crate) calendar: Calendar,
    pub(crate) edge: Span,
}

impl Windows {
    /// How long a window is on average.
    pub(crate) fn average(&self) -> Span {
        match &self.calendar {
            Calendar::Every(period) => *period,
            Calendar::Day(_) => DAY,
            Calendar::Week(_) => WEEK,
            Calendar::Month(_) => AVERAGE_MONTH,
        }
    }

    /// The first moment from `start` on at which the window with this index may grant, counted from the one that
    /// `start` is in. None if that is after [`Timestamp::MAX`].
    pub(crate) fn opens(&self, start: Timestamp, index: u128) -> Option<Timestamp> {
        let now = self.calendar.window_at(start);
        let first = if self.is_closing(now, start) { self.calendar.window_at(now.1) } else { now };
        let window = self.later(first, index)?;
        Some(start.max(window.0.plus(self.edge_of(window))))
    }

    /// Whether nothing more is granted in the window.
    fn is_closing(&self, window: (Timestamp, Timestamp), at: Timestamp) -> bool {
        at >= window.1.minus(self.edge_of(window))
    }

    fn edge_of(&self, (start, end): (Timestamp, Timestamp)) -> Span {
        self.edge.min(Span::from_micros(end.since(start).as_micros() / EDGE_PART_OF_PERIOD))
    }

    /// The window `index` windows after `first`. A day or a week is found by its middle, which no clock change moves out of
    /// it; a month by its fifteenth.
    fn later(&self, first: (Timestamp, Timestamp), index: u128) -> Option<(Timestamp, Timestamp)> {
        if index == 0 {
            return Some(first);
        }
        let before_end = |span: Span| first.1.minus(Span::from_micros(span.as_micros() / 2));
        let inside = match &self.calendar {
            Calendar::Every(period) => after(first.0, *period, index)?,
            Calendar::Day(_) => after(before_end(DAY), DAY, index)?,
            Calendar::Week(_) => after(before_end(WEEK), WEEK, index)?,
            Calendar::Month(_) => months_after(before_end(AVERAGE_MONTH), index)?,
        };
        Some(self.calendar.window_at(inside))
    }
}

/// This many periods later; none if that is after [`Timestamp::MAX`].
pub(crate) fn after(start: Timestamp, period: Span, times: u128) -> Option<Timestamp> {
    let micros = times.checked_mul(u128::from(period.as_micros()))?.checked_add(start.as_micros().into())?;
    u64::try_from(micros).ok().filter(|micros| *micros <= COUNT_MAX).map(Timestamp::from_micros)
}

/// The fifteenth of the month, `index` months after the one that contains `middle`.
fn months_after(middle: Timestamp, index: u128) -> Option<Timestamp> {
    let micros = i64::try_from(middle.as_micros()).ok()?;
    let date = jiff::Timestamp::from_microsecond(micros).ok()?.to_zoned(TimeZone::UTC).date();
    let months = jiff::Span::new().try_months(i64::try_from(index).ok()?).ok()?;
    let fifteenth = Date::new(date.year(), date.month(), 15).ok()?.checked_add(months).ok()?;
    let noon = fifteenth.at(12, 0, 0, 0).to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
    u64::try_from(noon).ok().filter(|micros| *micros <= COUNT_MAX).map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollway_core::Zone;

    /// A7, B6: the jump equals a walk window by window, through two years of zones with odd clock changes.
    #[test]
    fn a_jump_equals_a_walk_window_by_window() {
        for zone in
            ["UTC", "America/Los_Angeles", "Australia/Lord_Howe", "Pacific/Kiritimati", "Africa/Cairo"]
        {
            let zone = Zone::named(zone).unwrap();
            let start = Timestamp::from_secs(1_793_516_400);
            for (calendar, count) in [
                (Calendar::Day(zone.clone()), 750),
                (Calendar::Week(zone.clone()), 110),
                (Calendar::Month(zone.clone()), 30),
                (Calendar::Every(Span::from_mins(7)), 500),
            ] {
                let windows = Windows { calendar: calendar.clone(), edge: Span::ZERO };
                let mut walked = calendar.window_at(start);
                for index in 1..count {
                    walked = calendar.window_at(walked.1);
                    assert_eq!(windows.opens(start, index), Some(walked.0), "{calendar:?} {index}");
                }
            }
        }
    }

    #[test]
    fn a_window_after_the_last_timestamp_is_none() {
        for calendar in [
            Calendar::Every(Span::from_millis(1)),
            Calendar::Day(Zone::UTC),
            Calendar::Week(Zone::UTC),
            Calendar::Month(Zone::UTC),
        ] {
            let windows = Windows { calendar, edge: Span::ZERO };
            for index in [u128::MAX, u128::from(u64::MAX), 1 << 60] {
                assert_eq!(windows.opens(Timestamp::from_secs(1_793_516_400), index), None);
            }
        }
    }
}
