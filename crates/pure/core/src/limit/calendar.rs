//! Where aligned windows begin and end: multiples of a period since the Unix epoch, and days, weeks and months of a zone.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};

use crate::{Span, Timestamp};

/// An IANA time zone from the bundled database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// No zone of that name.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IANA time zone (try one like America/Los_Angeles or UTC)")]
pub struct UnknownZone(pub String);

crate::debug_as_display!(UnknownZone);

impl Zone {
    /// UTC, the default zone.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// The zone of this name.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Self::UTC);
        }
        TimeZone::get(name).map(Self).map_err(|_| UnknownZone(name.to_owned()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The sequence of aligned windows. They tile time: each ends where the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Calendar {
    /// Multiples of a duration since the Unix epoch.
    Every(Span),
    /// Days from midnight to midnight; 23 or 25 hours where clocks change.
    Day(Zone),
    /// Weeks from Monday to Monday.
    Week(Zone),
    /// Months from the first to the first.
    Month(Zone),
}

impl Calendar {
    /// The window that contains `at`: its start, and its end (the start of the next).
    pub fn window_at(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        match self {
            Self::Every(period) => epoch_window(at, *period),
            Self::Day(zone) | Self::Week(zone) | Self::Month(zone) => {
                self.civil_window(at, zone).unwrap_or_else(|| epoch_window(at, self.longest()))
            }
        }
    }

    /// The zone whose midnights end its windows; windows of a fixed length have none.
    pub fn zone(&self) -> Option<&Zone> {
        match self {
            Self::Every(_) => None,
            Self::Day(zone) | Self::Week(zone) | Self::Month(zone) => Some(zone),
        }
    }

    /// The nominal length of a window: a month is 30 days.
    pub(crate) fn nominal(&self) -> Span {
        match self {
            Self::Every(period) => *period,
            Self::Day(_) => Span::from_days(1),
            Self::Week(_) => Span::from_days(7),
            Self::Month(_) => Span::from_days(30),
        }
    }

    /// The longest possible window: an upper bound for expiry.
    pub fn longest(&self) -> Span {
        match self {
            Self::Every(period) => *period,
            Self::Day(_) => Span::from_hours(25),
            Self::Week(_) => Span::from_hours(7 * 24 + 1),
            Self::Month(_) => Span::from_hours(31 * 24 + 1),
        }
    }

    /// `None` only if `at` is outside the years jiff supports, which no [`Timestamp`] is.
    fn civil_window(&self, at: Timestamp, zone: &Zone) -> Option<(Timestamp, Timestamp)> {
        let micros = i64::try_from(at.as_micros()).ok()?;
        let day = jiff::Timestamp::from_microsecond(micros).ok()?.to_zoned(zone.0.clone()).date();
        let mut first = self.first_day(day)?;
        let mut start = start_of(first, zone)?;
        loop {
            first = self.next_first_day(first)?;
            let end = start_of(first, zone)?;
            // A zone that sets its clocks back across midnight repeats the end of a day. The repeated minutes belong to
            // the later window, so that windows never overlap.
            if at < end || end == Timestamp::MAX {
                return Some((start, end));
            }
            start = end;
        }
    }

    fn first_day(&self, day: Date) -> Option<Date> {
        match self {
            Self::Week(_) => day.checked_sub(i32::from(day.weekday().to_monday_zero_offset()).days()).ok(),
            Self::Month(_) => Some(day.first_of_month()),
            _ => Some(day),
        }
    }

    fn next_first_day(&self, first: Date) -> Option<Date> {
        match self {
            Self::Week(_) => first.checked_add(7.days()).ok(),
            Self::Month(_) => first.checked_add(1.month()).ok(),
            _ => first.tomorrow().ok(),
        }
    }
}

/// The first moment of a civil day, even where midnight itself is skipped.
fn start_of(day: Date, zone: &Zone) -> Option<Timestamp> {
    let midnight: Zoned = zone.0.to_zoned(day.at(0, 0, 0, 0)).ok()?;
    let start = midnight.start_of_day().ok()?.timestamp().as_microsecond();
    // The first window of a zone east of Greenwich starts before the epoch; no timestamp is there.
    Some(Timestamp::from_micros(u64::try_from(start).unwrap_or(0)))
}

fn epoch_window(at: Timestamp, period: Span) -> (Timestamp, Timestamp) {
    let length = period.as_micros().max(1);
    let into = at.as_micros().checked_rem(length).unwrap_or(0);
    let start = at.minus(Span::from_micros(into));
    (start, start.plus(period))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let instant: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_micros(u64::try_from(instant.as_microsecond()).unwrap())
    }

    fn hours(calendar: &Calendar, inside: &str) -> u64 {
        let (start, end) = calendar.window_at(at(inside));
        end.since(start).as_micros() / 3_600_000_000
    }

    /// B6: days of 23 and 25 hours where clocks change.
    #[test]
    fn days_follow_daylight_saving() {
        let day = Calendar::Day(Zone::named("America/Los_Angeles").unwrap());
        assert_eq!(hours(&day, "2026-03-08T20:00:00Z"), 23);
        assert_eq!(hours(&day, "2026-11-01T20:00:00Z"), 25);
        assert_eq!(hours(&day, "2026-07-04T20:00:00Z"), 24);
        let (start, end) = day.window_at(at("2026-11-15T07:59:59Z"));
        assert_eq!((start, end), (at("2026-11-14T08:00:00Z"), at("2026-11-15T08:00:00Z")));
    }

    /// B6: a day whose midnight does not exist begins at one o'clock.
    #[test]
    fn a_day_without_midnight_still_tiles() {
        let day = Calendar::Day(Zone::named("America/Sao_Paulo").unwrap());
        let (start, end) = day.window_at(at("2018-11-04T12:00:00Z"));
        assert_eq!(start, at("2018-11-04T03:00:00Z"));
        assert_eq!(end.since(start), Span::from_hours(23));
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_the_first() {
        let week = Calendar::Week(Zone::UTC);
        assert_eq!(
            week.window_at(at("2026-11-15T12:00:00Z")),
            (at("2026-11-09T00:00:00Z"), at("2026-11-16T00:00:00Z"))
        );
        let month = Calendar::Month(Zone::UTC);
        assert_eq!(hours(&month, "2024-02-10T00:00:00Z"), 29 * 24);
        assert_eq!(hours(&month, "2026-02-10T00:00:00Z"), 28 * 24);
        assert_eq!(hours(&month, "2026-12-31T23:59:59Z"), 31 * 24);
    }

    /// Windows tile: hour by hour through years of zones with odd changes, each window contains its moment and the
    /// next one starts where it ends.
    #[test]
    fn windows_tile_time_in_odd_zones() {
        for name in
            ["America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Cairo"]
        {
            let zone = Zone::named(name).unwrap();
            for calendar in
                [Calendar::Day(zone.clone()), Calendar::Week(zone.clone()), Calendar::Month(zone.clone())]
            {
                let mut moment = at("2009-01-01T00:17:00Z");
                while moment < at("2011-12-31T00:00:00Z") {
                    let (start, end) = calendar.window_at(moment);
                    assert!(start <= moment && moment < end, "{name} {calendar:?}");
                    assert_eq!(calendar.window_at(end).0, end, "{name} {calendar:?}");
                    assert_eq!(calendar.window_at(start), (start, end), "{name} {calendar:?}");
                    moment = moment.plus(Span::from_hours(5));
                }
            }
        }
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        for zone in
            [Zone::UTC, Zone::named("Pacific/Kiritimati").unwrap(), Zone::named("Pacific/Niue").unwrap()]
        {
            for calendar in [Calendar::Day(zone.clone()), Calendar::Week(zone.clone()), Calendar::Month(zone)]
            {
                calendar.window_at(Timestamp::EPOCH);
                calendar.window_at(Timestamp::MAX);
            }
        }
    }

    #[test]
    fn an_unknown_zone_is_named() {
        assert_eq!(Zone::named("Mars/Olympus").unwrap_err(), UnknownZone("Mars/Olympus".into()));
    }
}
