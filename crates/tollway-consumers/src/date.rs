//! Dates as records have them in JSON: `2025-01-01T00:00:00Z`, in seconds or milliseconds.

use std::str::FromStr;

use jiff::fmt::temporal::{DateTimePrinter, Pieces};
use tollway_core::Timestamp;

use crate::quote::quote;

/// The longest accepted text: nanoseconds, which get an error of their own, and an offset.
const DATE_BYTES_MAX: usize = "2025-01-01T00:00:00.000000000+00:00".len();

/// The last millisecond of the timestamp range.
const LAST: Timestamp = Timestamp::from_millis(Timestamp::MAX.as_millis());

/// The years that may contain a moment from 1970 to `LAST`, in some zone.
const YEARS: std::ops::RangeInclusive<i16> = 1969..=2256;

/// Why a text is not a date.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DateError {
    /// Not a date, or not one with a time and a zone.
    #[error("{0} is not a date: write it as 2025-01-01T00:00:00Z")]
    Format(String),
    /// Microseconds or finer.
    #[error(
        "the date {0} is finer than a millisecond: write it as 2025-01-01T00:00:00Z or 2025-01-01T00:00:00.000Z"
    )]
    TooFine(String),
    /// Before 1970, or after the timestamp range.
    #[error("the date {0} is out of range: it is one from 1970-01-01T00:00:00Z to {last}", last = write_date(LAST))]
    OutOfRange(String),
}

/// Reads a date with a time and a zone (`Z` or an offset).
pub fn read_date(text: &str) -> Result<Timestamp, DateError> {
    let wrong = || DateError::Format(quote(text));
    // Also rejects zone names, which may follow in brackets.
    if text.len() > DATE_BYTES_MAX || text.contains('[') {
        return Err(wrong());
    }
    // Check the year first: a date out of range is not a format error.
    let year = Pieces::parse(text).map_err(|_| wrong())?.date().year();
    if !YEARS.contains(&year) {
        return Err(DateError::OutOfRange(quote(text)));
    }
    let moment = jiff::Timestamp::from_str(text).map_err(|_| wrong())?;
    if moment.subsec_nanosecond() % 1_000_000 != 0 {
        return Err(DateError::TooFine(quote(text)));
    }
    let millis = u64::try_from(moment.as_millisecond()).unwrap_or(u64::MAX);
    let date = Timestamp::from_millis(millis);
    if date > LAST { Err(DateError::OutOfRange(quote(text))) } else { Ok(date) }
}

/// Writes a date in seconds, or in milliseconds if it has any.
pub fn write_date(date: Timestamp) -> String {
    let millis = date.as_millis();
    let precision = if millis.is_multiple_of(1_000) { 0 } else { 3 };
    let moment = i64::try_from(millis).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    match moment {
        Some(moment) => DateTimePrinter::new().precision(Some(precision)).timestamp_to_string(&moment),
        None => date.to_string(),
    }
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
        assert_eq!(read_date("1970-01-01T00:00:01.000Z").unwrap(), Timestamp::from_secs(1));
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
        for text in ["1969-12-31T23:59:59Z", "2255-06-06T00:00:00Z", "9999-12-31T23:59:59Z"] {
            let error = read_date(text).unwrap_err();
            assert_eq!(error, DateError::OutOfRange(quote(text)));
            assert!(error.to_string().contains("to 2255-06-05T23:47:34.740Z"), "{error}");
        }
    }
}
