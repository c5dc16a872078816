//! Dates as records have them in JSON: `2025-01-01T00:00:00Z`, in seconds or milliseconds.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::{DateTimePrinter, Pieces};
use tollway_core::Timestamp;

use crate::quote::quote;

/// The longest accepted text: nanoseconds, which get an error of their own, and an offset.
const DATE_BYTES_MAX: usize = "2025-01-01T00:00:00.000000000+00:00".len();

/// The years that may contain a moment from 1970 to 9999, in some zone.
const YEARS: std::ops::RangeInclusive<i16> = 1969..=9999;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// A moment of a record, to the microsecond, from 1970 to the end of the year 9999.
///
/// A [`Timestamp`] ends in 2255, and 9999-12-31 is how other systems write "for ever".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordDate(u64);

impl RecordDate {
    /// The last moment of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// This many microseconds after 1970, at most [`RecordDate::MAX`].
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros > Self::MAX.0 { Self::MAX.0 } else { micros })
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The same moment for a clock, at most [`Timestamp::MAX`].
    pub const fn timestamp(self) -> Timestamp {
        Timestamp::from_micros(self.0)
    }
}

impl From<Timestamp> for RecordDate {
    fn from(timestamp: Timestamp) -> Self {
        Self::from_micros(timestamp.as_micros())
    }
}

/// Why a text is not a date.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum DateError {
    /// Not a date, or not one with a time and a zone.
    #[error("{0} is not a date: write it as 2025-01-01T00:00:00Z")]
    Format(String),
    /// Microseconds or finer.
    #[error(
        "the date {0} is finer than a millisecond: write it as 2025-01-01T00:00:00Z or 2025-01-01T00:00:00.000Z"
    )]
    TooFine(String),
    /// Before 1970, or after 9999 in UTC.
    #[error("the date {0} is out of range: it is one from 1970-01-01T00:00:00Z to 9999-12-31T23:59:59.999Z")]
    OutOfRange(String),
}

tollway_core::debug_as_display!(DateError);

/// Reads a date with a time and a zone (`Z` or an offset).
pub fn read_date(text: &str) -> Result<RecordDate, DateError> {
    let wrong = || DateError::Format(quote(text));
    let out_of_range = || DateError::OutOfRange(quote(text));
    // Also rejects zone names, which may follow in brackets.
    if text.len() > DATE_BYTES_MAX || text.contains('[') {
        return Err(wrong());
    }
    // Check the year first: a date out of range is not a format error.
    let pieces = Pieces::parse(text).map_err(|_| wrong())?;
    if !YEARS.contains(&pieces.date().year()) {
        return Err(out_of_range());
    }
    let (time, offset) = pieces.time().zip(pieces.to_numeric_offset()).ok_or_else(wrong)?;
    if time.subsec_nanosecond() % 1_000_000 != 0 {
        return Err(DateError::TooFine(quote(text)));
    }
    // By civil time: a timestamp of jiff ends a day before the year 9999 does.
    let moment = DateTime::from_parts(pieces.date(), time)
        .duration_since(EPOCH)
        .saturating_sub(SignedDuration::from_secs(offset.seconds().into()));
    let micros = u64::try_from(moment.as_micros()).map_err(|_| out_of_range())?;
    if micros > RecordDate::MAX.0 { Err(out_of_range()) } else { Ok(RecordDate(micros)) }
}

/// Writes a date in seconds, or in milliseconds if it has any.
pub fn write_date(date: impl Into<RecordDate>) -> String {
    let RecordDate(micros) = date.into();
    let millis = micros / 1_000;
    let precision = if millis.is_multiple_of(1_000) { 0 } else { 3 };
    let moment = EPOCH.saturating_add(SignedDuration::from_millis(millis.cast_signed()));
    DateTimePrinter::new().precision(Some(precision)).datetime_to_string(&moment) + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip_through_text() {
        for text in ["2025-01-01T00:00:00Z", "2025-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z"] {
            assert_eq!(write_date(read_date(text).unwrap()), text);
        }
        assert_eq!(write_date(read_date("2025-01-01T00:00:00.500Z").unwrap()), "2025-01-01T00:00:00.500Z");
        assert_eq!(read_date("1970-01-01T00:00:01.000Z").unwrap(), Timestamp::from_secs(1).into());
    }

    #[test]
    fn dates_reach_to_the_end_of_the_year_9999() {
        for text in ["2255-06-06T00:00:00Z", "9999-12-31T00:00:00Z", "9999-12-31T23:59:59.999Z"] {
            assert_eq!(write_date(read_date(text).unwrap()), text);
        }
        let east = read_date("9999-12-31T23:59:59+14:00").unwrap();
        assert_eq!(write_date(east), "9999-12-31T09:59:59Z");
        assert_eq!(east.timestamp(), Timestamp::MAX);
        assert_eq!(write_date(RecordDate::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(RecordDate::from_micros(u64::MAX), RecordDate::MAX);
    }

    /// 02:30 happens twice in Berlin on this day; the offset makes it unambiguous.
    #[test]
    fn an_offset_resolves_the_repeated_hour_of_a_dst_change() {
        let summer = read_date("2026-10-25T02:30:00+02:00").unwrap();
        let winter = read_date("2026-10-25T02:30:00+01:00").unwrap();
        assert_eq!(write_date(summer), "2026-10-25T00:30:00Z");
        assert_eq!(write_date(winter), "2026-10-25T01:30:00Z");
    }

    #[test]
    fn an_invalid_date_is_quoted_in_the_error() {
        for text in [
            "",
            "yesterday",
            "2025-01-01",
            "2025-01-01T00:00:00",
            "2025-02-30T00:00:00Z",
            "1735689600",
            "2025-01-01T00:00:00+01:00[Europe/Berlin]",
        ] {
            assert_eq!(read_date(text), Err(DateError::Format(quote(text))), "{text}");
        }
        let fine = "2025-01-01T00:00:00.0001Z";
        assert_eq!(read_date(fine), Err(DateError::TooFine(quote(fine))));
        for text in ["1969-12-31T23:59:59Z", "1970-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"] {
            let error = read_date(text).unwrap_err();
            assert_eq!(error, DateError::OutOfRange(quote(text)));
            assert!(error.to_string().contains("to 9999-12-31T23:59:59.999Z"), "{error}");
        }
    }
}
