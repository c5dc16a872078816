//! The start and end of windows, found by walking the civil calendar day by day.
//!
//! The engine computes them directly from the date; this independent way checks it.

use jiff::Timestamp as Instant;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use tollway_core::{Calendar, Span, Timestamp, Zone};

/// The window that contains a moment: its start, and the first moment after it.
pub(crate) type Bounds = (Timestamp, Timestamp);

/// The window that contains a moment.
pub(crate) fn window_at(calendar: &Calendar, at: Timestamp) -> Bounds {
    match calendar {
        Calendar::Every(period) => multiple_of(*period, at),
        Calendar::Day(zone) => civil(zone, at, |_| true),
        Calendar::Week(zone) => civil(zone, at, |day| day.weekday() == Weekday::Monday),
        Calendar::Month(zone) => civil(zone, at, |day| day.day() == 1),
    }
}

/// The window of a period that is counted from the epoch.
pub(crate) fn multiple_of(period: Span, at: Timestamp) -> Bounds {
    let number = at.as_micros() / period.as_micros();
    let start = Timestamp::from_micros(number * period.as_micros());
    (start, start.plus(period))
}

/// From the last day of this kind that has begun at `at` to the first that has not. Before the epoch there is nothing.
fn civil(zone: &Zone, at: Timestamp, first: impl Fn(&Date) -> bool) -> Bounds {
    let zone = TimeZone::get(zone.name()).expect("the zone is in the database that it came from");
    let micros = i64::try_from(at.as_micros()).expect("no timestamp is that late");
    let today =
        Instant::from_microsecond(micros).expect("jiff knows that year").to_zoned(zone.clone()).date();
    // The day after tomorrow has surely not begun, even where clocks are set back across midnight.
    let Ok(late) = today.tomorrow().and_then(Date::tomorrow) else { return (at, Timestamp::MAX) };
    let begins = |day: Date| (day, beginning(day, &zone));
    let backwards = std::iter::successors(Some(late), |day| day.yesterday().ok());
    let begun = backwards.filter(&first).map(begins).find(|(_, begins)| *begins <= at);
    let (day, start) = begun.expect("the calendar goes back to before the epoch");
    let forwards = std::iter::successors(day.tomorrow().ok(), |day| day.tomorrow().ok());
    let next = forwards.filter(first).map(begins).find(|(_, begins)| *begins > at);
    (start, next.map_or(Timestamp::MAX, |(_, begins)| begins))
}

/// The first moment of a day, which is not midnight where clocks skip it.
fn beginning(day: Date, zone: &TimeZone) -> Timestamp {
    let Ok(noon) = day.at(12, 0, 0, 0).to_zoned(zone.clone()) else { return Timestamp::MAX };
    let begins = noon.start_of_day().map_or(i64::MAX, |begins| begins.timestamp().as_microsecond());
    Timestamp::from_micros(u64::try_from(begins).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let instant: Instant = text.parse().unwrap();
        Timestamp::from_micros(u64::try_from(instant.as_microsecond()).unwrap())
    }

    fn window(calendar: &Calendar, moment: &str, start: &str, end: &str) {
        assert_eq!(window_at(calendar, at(moment)), (at(start), at(end)), "{calendar:?} at {moment}");
    }

    #[test]
    fn windows_in_zones_with_daylight_saving() {
        let california = Zone::named("America/Los_Angeles").unwrap();
        let day = Calendar::Day(california.clone());
        window(&day, "2026-03-08T20:00:00Z", "2026-03-08T08:00:00Z", "2026-03-09T07:00:00Z");
        window(&day, "2026-11-01T20:00:00Z", "2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z");
        let week = Calendar::Week(california);
        window(&week, "2026-11-01T20:00:00Z", "2026-10-26T07:00:00Z", "2026-11-02T08:00:00Z");
        let month = Calendar::Month(Zone::UTC);
        window(&month, "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
        let minute = Calendar::Every(Span::from_mins(1));
        window(&minute, "2024-02-29T23:59:59Z", "2024-02-29T23:59:00Z", "2024-03-01T00:00:00Z");
    }

    /// B6: where midnight is skipped or occurs twice, the engine computes the same windows.
    #[test]
    fn engine_windows_match_in_odd_zones() {
        for name in ["America/Sao_Paulo", "America/St_Johns", "Africa/Cairo", "Australia/Lord_Howe", "UTC"] {
            let zone = || Zone::named(name).unwrap();
            for calendar in [Calendar::Day(zone()), Calendar::Week(zone()), Calendar::Month(zone())] {
                let mut moment = at("2009-09-01T00:17:00Z");
                while moment < at("2011-04-30T00:00:00Z") {
                    let ours = window_at(&calendar, moment);
                    assert_eq!(calendar.window_at(moment), ours, "{name} {calendar:?} at {moment:?}");
                    moment = moment.plus(Span::from_mins(149));
                }
            }
        }
    }
}
