//! Points in time, in every notation that vendors use, as a duration after the response's own `Date`.

use std::time::Duration;

use http::{HeaderMap, header};
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::durations::{self, DURATION_MAX, Decimal};
use crate::observation::clean;

/// A larger number is a time in milliseconds since 1970: as seconds it would be in the year 33658.
const EPOCH_MILLIS_ABOVE: u64 = 1_000_000_000_000;

/// A larger number is a time in seconds since 1970, a smaller one a duration: as a duration it would be 31 years.
const EPOCH_SECONDS_ABOVE: u64 = 1_000_000_000;

/// A wrong name of the day does not make a time useless.
const IMF: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new().relaxed_weekday(true);

/// The notations of `strtime`: RFC 850 and asctime, which RFC 9110 still allows, and JavaScript's `Date.toString()`.
const OTHER_DATES: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
const JAVASCRIPT_DATE: &str = "%a %b %d %Y %H:%M:%S GMT%z";

/// When the response was sent, by its own `Date`.
pub(crate) fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(header::DATE)?;
    let sent = text.to_str().ok().and_then(date);
    if sent.is_none() {
        let value = text.to_str().ok().and_then(clean);
        tracing::debug!(?value, "ignored a Date that makes no sense");
    }
    sent
}

/// A reset or a wait as a duration: a number, a duration with units, or a date.
///
/// A date in the past is a duration of zero. A date without a `Date` to compare it with says nothing.
pub(crate) fn until(text: &str, sent: Option<Timestamp>) -> Option<Duration> {
    let text = text.trim();
    match Decimal::parse(text) {
        Some(number) => number_until(number, sent),
        None => durations::with_units(text).or_else(|| between(sent?, date(text)?)),
    }
}

fn number_until(number: Decimal, sent: Option<Timestamp>) -> Option<Duration> {
    let since_1970 = if number.whole > EPOCH_MILLIS_ABOVE {
        Duration::from_millis(number.whole)
    } else if number.whole > EPOCH_SECONDS_ABOVE {
        Duration::new(number.whole, number.billionths)
    } else {
        return number.seconds();
    };
    let since_1970 = SignedDuration::try_from(since_1970).ok()?;
    between(sent?, Timestamp::from_duration(since_1970).ok()?)
}

fn between(sent: Timestamp, time: Timestamp) -> Option<Duration> {
    let duration = time.duration_since(sent);
    let duration = if duration.is_negative() { Duration::ZERO } else { duration.unsigned_abs() };
    (duration <= DURATION_MAX).then_some(duration)
}

fn date(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let other = |format: &&str| strtime::parse(format, text).ok()?.to_datetime().ok();
    let utc = |datetime: jiff::civil::DateTime| datetime.to_zoned(TimeZone::UTC).ok();
    let time = IMF.parse_timestamp(text).ok();
    // RFC 3339, seconds optional.
    let time = time.or_else(|| text.parse().ok());
    let time = time.or_else(|| Some(OTHER_DATES.iter().find_map(other).and_then(utc)?.timestamp()));
    time.or_else(|| javascript_date(text))
}

/// `Tue Mar 03 2026 10:05:00 GMT+0000 (Coordinated Universal Time)`
fn javascript_date(text: &str) -> Option<Timestamp> {
    let without_zone_name = text.split(" (").next()?;
    strtime::parse(JAVASCRIPT_DATE, without_zone_name).ok()?.to_timestamp().ok()
}

/// The time until the next midnight in a zone.
pub(crate) fn until_midnight(zone: &str, sent: Timestamp) -> Option<Duration> {
    let midnight = sent.in_tz(zone).ok()?.tomorrow().ok()?.start_of_day().ok()?;
    between(sent, midnight.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday, 2 March 2026, 10:00:00.
    const SENT: i64 = 1_772_445_600;

    fn seconds(text: &str) -> Option<f64> {
        until(text, Timestamp::from_second(SENT).ok()).map(|duration| duration.as_secs_f64())
    }

    #[test]
    fn every_notation_of_the_same_time() {
        for five_minutes in [
            "300",
            "300.0",
            "5m",
            "5m0s",
            "300000ms",
            "1772445900",
            "1772445900.0",
            "1772445900000",
            "2026-03-02T10:05Z",
            "2026-03-02T10:05:00Z",
            "2026-03-02T10:05:00.000Z",
            "2026-03-02T12:05:00+02:00",
            "Mon, 02 Mar 2026 10:05:00 GMT",
            "Tue, 02 Mar 2026 10:05:00 GMT",
            "Monday, 02-Mar-26 10:05:00 GMT",
            "Mon Mar  2 10:05:00 2026",
            "Mon Mar 02 2026 10:05:00 GMT+0000 (Coordinated Universal Time)",
            "Mon Mar 02 2026 11:05:00 GMT+0100 (Central European Standard Time)",
        ] {
            assert_eq!(seconds(five_minutes), Some(300.0), "{five_minutes}");
        }
        assert_eq!(seconds("1772445600.25"), Some(0.25));
    }

    #[test]
    fn past_is_zero_and_nonsense_is_nothing() {
        assert_eq!(seconds("1000000001"), Some(0.0));
        assert_eq!(seconds("2025-08-21T12:40:59Z"), Some(0.0));
        for nonsense in
            ["", "-1", "soon", "999999999", "2026-13-02T10:05Z", "9999-01-01T00:00:00Z", "1e99", "25:00"]
        {
            assert_eq!(seconds(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn date_needs_a_date_to_compare_with() {
        assert_eq!(until("1772445900", None), None);
        assert_eq!(until("Mon, 02 Mar 2026 10:05:00 GMT", None), None);
        assert_eq!(until("42", None), Some(Duration::from_secs(42)));
    }

    #[test]
    fn midnight_follows_the_zone() {
        let sent = Timestamp::from_second(SENT).unwrap();
        // 02:00 in California.
        assert_eq!(until_midnight("America/Los_Angeles", sent), Some(Duration::from_secs(22 * 3_600)));
        assert_eq!(until_midnight("Nowhere/Land", sent), None);
    }
}
