//! Timestamps as logs write them.

use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use tollway_core::Timestamp;

use super::{Reason, Value};

/// From here on a number counts milliseconds, not seconds: in seconds this would be the year 5138.
const MILLIS_FROM: u64 = 100_000_000_000;

/// Reads a moment: a number since 1970 by its magnitude, RFC 3339 (UTC where no zone is said), or as in access logs.
pub(super) fn read(value: &Value<'_>) -> Result<Timestamp, Reason> {
    let micros = match value {
        Value::Whole(number) => Some(micros_of(*number)),
        Value::Fraction(number) => micros_of_fraction(*number),
        Value::Text(text) => micros_of_text(text.trim()),
        Value::Missing | Value::Other => None,
    };
    match micros {
        Some(micros) if micros < Timestamp::MAX.as_micros() => Ok(Timestamp::from_micros(micros)),
        _ => Err(format!("{:?} is not a time after 1970", value.text().unwrap_or_default()).into()),
    }
}

/// Scales seconds, milliseconds, microseconds or nanoseconds by magnitude to a plausible year.
fn micros_of(number: u64) -> u64 {
    const MICROS_FROM: u64 = MILLIS_FROM * 1_000;
    const NANOS_FROM: u64 = MICROS_FROM * 1_000;
    match number {
        0..MILLIS_FROM => number.saturating_mul(1_000_000),
        MILLIS_FROM..MICROS_FROM => number.saturating_mul(1_000),
        MICROS_FROM..NANOS_FROM => number,
        NANOS_FROM.. => number / 1_000,
    }
}

fn micros_of_fraction(number: f64) -> Option<u64> {
    let whole = (number.is_finite() && number >= 0.0).then_some(number as u64)?;
    // The fraction only matters for seconds and milliseconds.
    let scale = micros_of(whole.max(1)) / whole.max(1);
    Some(if scale > 1 { (number * scale as f64).round() as u64 } else { micros_of(whole) })
}

fn micros_of_text(text: &str) -> Option<u64> {
    let first = text.bytes().next()?;
    if !first.is_ascii_digit() {
        return None;
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(micros_of(whole));
    }
    let time = match text.parse::<jiff::Timestamp>() {
        Ok(time) => time,
        Err(_) => return text.parse::<f64>().map_or_else(|_| other_text(text), micros_of_fraction),
    };
    u64::try_from(time.as_microsecond()).ok()
}

/// Without a zone, or as in access logs: `10/Oct/2000:13:55:36 -0700`.
fn other_text(text: &str) -> Option<u64> {
    let time = match text.parse::<DateTime>() {
        Ok(civil) => civil.to_zoned(TimeZone::UTC).ok()?.timestamp(),
        Err(_) => strtime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok()?.to_timestamp().ok()?,
    };
    u64::try_from(time.as_microsecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timestamp_format_is_parsed() {
        let at = Timestamp::from_millis(1_763_208_000_250);
        for text in [
            "2025-11-15T12:00:00.25Z",
            "2025-11-15T13:00:00.250+01:00",
            "2025-11-15 12:00:00.25",
            "1763208000.25",
            "1763208000250",
            "1763208000250000",
            "1763208000250000000",
        ] {
            assert_eq!(read(&Value::Text(text.into())), Ok(at), "{text}");
        }
        assert_eq!(read(&Value::Fraction(1_763_208_000.25)), Ok(at));
        assert_eq!(read(&Value::Fraction(1_763_208_000_250.0)), Ok(at));
        assert_eq!(read(&Value::Whole(1_763_208_000_250)), Ok(at));
        let seconds = Ok(Timestamp::from_secs(971_211_336));
        assert_eq!(read(&Value::Text("10/Oct/2000:13:55:36 -0700".into())), seconds);
    }

    #[test]
    fn text_that_is_no_time_is_refused() {
        for text in [
            "",
            "yesterday",
            "2025-13-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "-5",
            "1e400",
            "99/Oct/2000:13:55:36 -0700",
        ] {
            let reason = read(&Value::Text(text.into())).unwrap_err();
            assert_eq!(reason, format!("{text:?} is not a time after 1970"));
        }
        assert!(read(&Value::Fraction(-1.0)).is_err());
        assert!(read(&Value::Whole(u64::MAX)).is_err(), "the year 2554");
    }
}
