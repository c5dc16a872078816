//! Dates as records have them in JSON: `2025-01-01T00:00:00Z`, in seconds or milliseconds.

use std::str::FromStr;

use jiff::fmt::temporal::{DateTimePrinter, Pieces};
use tollway_core::Timestamp;

use crate::quote::quote;

/// The longest that is looked at: nanoseconds, which are refused by their name, and an offset.
const DATE_BYTES_MAX: usize = "2025-01-01T00:00:00.000000000+00:00".len();

/// The last millisecond that time is counted for.
const LAST: Timestamp = Timestamp::from_millis(Timestamp::MAX.as_millis());

/// Years that may hold a moment between 1970 and the last, in some zone.
const YEARS: std::ops::RangeInclusive<i16> = 1969..=2256;

/// A text that is no date.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DateError {
    /// Not a date, or not one with a time and a zone.
    #[error("{0} is not a date: write it as 2025-01-01T00:00:00Z")]
    Format(String),
    /// With microseconds or less.
    #[error(
        "the date {0} is finer than a millisecond: write it as 2025-01-01T00:00:00Z or 2025-01-01T00:00:00.000Z"
    )]
    TooFine(String),
    /// Before 1970, or later than time is counted.
    #[error("the date {0} is out of range: it is one from 1970-01-01T00:00:00Z to {last}", last = write_date(LAST))]
    OutOfRange(String),
}

/// Reads a date with a time and a zone (`Z` or an offset).
pub fn read_date(text: &str) -> Result<Timestamp, DateError> {
    let wrong = || DateError::Format(quote(text));
    // Also keeps names of zones out, which may follow in brackets.
    if text.len() > DATE_BYTES_MAX || text.contains('[') {
        return Err(wrong());
    }
    // The year first: a date far away is a date all the same.
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

/// Writes a date: in seconds, or in milliseconds where seconds do not hold it.
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
    fn dates_are_read_as_they_are_written() {
        for text in ["2025-01-01T00:00:00Z", "2025-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z"] {
            assert_eq!(write_date(read_date(text).unwrap()), text);
        }
        assert_eq!(write_date(read_date("2025-01-01T00:00:00.500Z").unwrap()), "2025-01-01T00:00:00.500Z");
        assert_eq!(read_date("1970-01-01T00:00:01.000Z").unwrap(), Timestamp::from_secs(1));
    }

    /// Half past two comes twice in Berlin on this day; with its offset it is one moment.
    #[test]
    fn an_offset_says_which_hour_is_meant_where_clocks_change() {
        let summer = read_date("2026-10-25T02:30:00+02:00").unwrap();
        let winter = read_date("2026-10-25T02:30:00+01:00").unwrap();
        assert_eq!(write_date(summer), "2026-10-25T00:30:00Z");
        assert_eq!(write_date(winter), "2026-10-25T01:30:00Z");
    }

    #[test]
    fn what_is_no_date_is_named() {
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
