//! Times as records write them.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use tollway_core::Timestamp;

/// A time as in RFC 3339; without `Z` and without an offset it is UTC, as Python's `utcnow().isoformat()` writes it.
/// `None` if it is neither, or not from 1970 to 2255.
///
/// ```
/// use tollway_pipeline::source::read_time;
///
/// let time = read_time("2025-02-19T10:30:00Z").unwrap();
/// assert_eq!(read_time("2025-02-19T10:30:00"), Some(time));
/// assert_eq!(read_time("2025-02-19T12:30:00+02:00"), Some(time));
/// assert_eq!(read_time("soon"), None);
/// ```
pub fn read_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    // A zone's name alone says nothing about the offset, and the parser of local times would ignore it.
    if text.contains('[') {
        return None;
    }
    let time = text.parse::<jiff::Timestamp>().ok();
    let time = time.or_else(|| {
        let local: DateTime = text.parse().ok()?;
        local.to_zoned(TimeZone::UTC).ok().map(|utc| utc.timestamp())
    })?;
    let micros = u64::try_from(time.as_microsecond()).ok()?;
    Some(Timestamp::from_micros(micros)).filter(|time| *time != Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: u64 = 1_739_961_000;

    #[test]
    fn times_with_and_without_a_zone_are_equal() {
        for text in [
            "2025-02-19T10:30:00Z",
            "2025-02-19T10:30:00",
            "2025-02-19T10:30:00.000Z",
            "2025-02-19 10:30:00Z",
            "2025-02-19 10:30:00",
            "2025-02-19T10:30:00+00:00",
            "2025-02-19T05:30:00-05:00",
            " 2025-02-19T10:30Z ",
        ] {
            assert_eq!(read_time(text), Some(Timestamp::from_secs(SECONDS)), "{text}");
        }
        let micros = Timestamp::from_micros(SECONDS * 1_000_000 + 123_456);
        assert_eq!(read_time("2025-02-19T10:30:00.123456"), Some(micros));
    }

    #[test]
    fn other_text_is_no_time() {
        for text in [
            "",
            "soon",
            "10:30",
            "2025-02-30T10:30:00Z",
            "2025-02-19T10:30:00[America/New_York]",
            "1969-12-31T23:59:59Z",
            "9999-01-01T00:00:00Z",
            "1739961000",
        ] {
            assert_eq!(read_time(text), None, "{text}");
        }
    }
}
