//! An hour of UTC, the unit in which limits are looked up and cached.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tollway_core::{Span, Timestamp};

use crate::quote::quote;

const HOUR: u64 = Span::from_hours(1).as_micros();

/// An hour of UTC, written `2025-12-31-13`.
///
/// UTC has no daylight saving, so every hour has the same length and occurs once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(u64);

/// Why a text is not an hour.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum HourError {
    /// The wrong format.
    #[error("{0} is not an hour: write it as YYYY-MM-DD-HH, in UTC, such as 2025-12-31-13")]
    Format(String),
    /// The right format, but not a valid date or hour.
    #[error("there is no hour {0}: check the month, the day, and that the hour is from 00 to 23")]
    NoSuchHour(String),
    /// Before 1970, or after the timestamp range.
    #[error("the hour {0} is out of range: it is one from 1970-01-01-00 to {last}", last = Hour::LAST)]
    OutOfRange(String),
}

tollway_core::debug_as_display!(HourError);

impl Hour {
    /// The last whole hour of the timestamp range.
    pub const LAST: Self = Self(Timestamp::MAX.as_micros() / HOUR - 1);

    /// The hour that contains this moment.
    pub const fn of(moment: Timestamp) -> Self {
        Self(moment.as_micros() / HOUR)
    }

    /// Its first microsecond.
    pub const fn first(self) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_mul(HOUR))
    }

    /// Its last microsecond.
    pub const fn last(self) -> Timestamp {
        Timestamp::from_micros(self.0.saturating_mul(HOUR).saturating_add(HOUR - 1))
    }
}

impl FromStr for Hour {
    type Err = HourError;

    fn from_str(text: &str) -> Result<Self, HourError> {
        let [year, month, day, hour] = fields(text).ok_or_else(|| HourError::Format(quote(text)))?;
        let none = |_| HourError::NoSuchHour(text.to_owned());
        let small = |number: i16| i8::try_from(number).unwrap_or(i8::MAX);
        let date = Date::new(year, small(month), small(day)).map_err(none)?;
        let time = jiff::civil::Time::new(small(hour), 0, 0, 0).map_err(none)?;
        let out = |_| HourError::OutOfRange(text.to_owned());
        let moment = date.to_datetime(time).to_zoned(TimeZone::UTC).map_err(out)?.timestamp();
        // A moment before 1970 is out of range, like one that is too late.
        let hour = Self(u64::try_from(moment.as_second()).unwrap_or(u64::MAX) / 3_600);
        if hour > Self::LAST { Err(HourError::OutOfRange(text.to_owned())) } else { Ok(hour) }
    }
}

/// Four numbers of fixed width, and nothing else.
fn fields(text: &str) -> Option<[i16; 4]> {
    let mut parts = text.split('-');
    let mut fields = [0; 4];
    for (field, digits) in fields.iter_mut().zip([4, 2, 2, 2]) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *field = part.parse().ok()?;
    }
    parts.next().is_none().then_some(fields)
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0.saturating_mul(3_600)).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_second(seconds) {
            Ok(moment) => write!(f, "{}", moment.strftime("%Y-%m-%d-%H")),
            Err(_) => write!(f, "hour {} after 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(text: &str) -> Hour {
        text.parse().unwrap()
    }

    /// C8: `YYYY-MM-DD-HH`.
    #[test]
    fn hours_round_trip_through_text() {
        for text in ["2025-12-31-13", "1970-01-01-00", "2024-02-29-23", "2255-06-05-22"] {
            assert_eq!(hour(text).to_string(), text);
        }
        assert_eq!(hour("1970-01-02-01"), Hour::of(Timestamp::from_secs(25 * 3_600)));
        assert_eq!(hour(&Hour::LAST.to_string()), Hour::LAST);
    }

    #[test]
    fn an_invalid_hour_is_quoted_in_the_error() {
        for text in [
            "",
            "2025",
            "2025-12-31",
            "2025-12-31T13:34:46Z",
            "2025-12-31-1",
            "2025-12-31-013",
            "25-12-31-13",
            "2025-12-31-13-",
            "2025-12-31-+1",
            " 2025-12-31-13",
            "2025/12/31/13",
            "２０２５-12-31-13",
        ] {
            assert_eq!(text.parse::<Hour>(), Err(HourError::Format(quote(text))), "{text}");
        }
        for text in ["2025-02-29-00", "2025-13-01-00", "2025-00-01-00", "2025-01-32-00", "2025-12-31-24"] {
            assert_eq!(text.parse::<Hour>(), Err(HourError::NoSuchHour(text.to_owned())), "{text}");
        }
        for text in ["1969-12-31-23", "2255-06-05-23", "9999-12-31-22", "0000-01-01-00"] {
            assert_eq!(text.parse::<Hour>(), Err(HourError::OutOfRange(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn an_hour_ends_where_the_next_begins() {
        let (one, next) = (hour("2025-12-31-23"), hour("2026-01-01-00"));
        assert_eq!(one.last().plus(Span::from_micros(1)), next.first());
        assert_eq!((Hour::of(one.first()), Hour::of(one.last()), Hour::of(next.first())), (one, one, next));
    }

    /// When clocks in Berlin go back (25 October 2026, 01:00 UTC), UTC hours stay consecutive.
    #[test]
    fn no_hour_is_skipped_or_repeated_where_clocks_change() {
        for day in ["2026-10-25", "2026-03-29"] {
            let hours: Vec<Hour> = (0..24).map(|number| hour(&format!("{day}-{number:02}"))).collect();
            for pair in hours.windows(2) {
                assert_eq!(pair[1].first().since(pair[0].first()), Span::from_hours(1));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn every_moment_is_in_the_hour_that_its_text_names(micros in 0..Timestamp::MAX.as_micros() - HOUR) {
            let moment = Timestamp::from_micros(micros);
            let hour = Hour::of(moment);
            proptest::prop_assert_eq!(hour.to_string().parse(), Ok(hour));
            proptest::prop_assert!(hour.first() <= moment && moment <= hour.last());
        }
    }
}
