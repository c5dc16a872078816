//! Formats numbers, durations and times for people.

use std::time::Duration;

use jiff::tz::TimeZone;
use tollway::{Span, Timestamp};

/// A number with thousands separators: `1,000,000`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and its unit: `1 request`, `2 requests`. `unit` is plural, as in limits.
pub(crate) fn counted(number: u64, unit: &str) -> String {
    match unit.strip_suffix('s') {
        Some(one) if number == 1 => format!("1 {one}"),
        _ => format!("{} {unit}", count(number)),
    }
}

/// How many names a message lists: a config may have very many.
const NAMES_LISTED_MAX: usize = 20;

/// Names for a sentence: `a, b, c`, or the first of very many and how many more there are.
pub(crate) fn first_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.get(..NAMES_LISTED_MAX) {
        Some(first) if names.len() > NAMES_LISTED_MAX => {
            format!("{} and {} more", first.join(", "), names.len() - NAMES_LISTED_MAX)
        }
        _ => names.join(", "),
    }
}

/// A size, rounded up to a tenth: `512 B`, `1.7 GB`. 1 GB is 1,000,000,000 bytes.
#[cfg(feature = "pipeline")]
pub(crate) fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (1_000, "kB"),
        1_000_000..1_000_000_000 => (1_000_000, "MB"),
        1_000_000_000..1_000_000_000_000 => (1_000_000_000, "GB"),
        _ => (1_000_000_000_000, "TB"),
    };
    let tenths = bytes.div_ceil(unit / 10);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, tenth) => format!("{whole}.{tenth} {name}"),
    }
}

/// A duration, rounded up: `250 ms`, `15.7 s`, `2 min 5 s`, `18 h 25 min`, `6 d 23 h`.
pub(crate) fn span(span: Span) -> String {
    let millis = span.as_micros().div_ceil(1_000);
    let seconds = millis.div_ceil(1_000);
    let (minutes, hours) = (seconds.div_ceil(60), seconds.div_ceil(3_600));
    match seconds {
        0..60 if millis < 1_000 => format!("{millis} ms"),
        0..60 => {
            let tenths = millis.div_ceil(100);
            let (whole, tenth) = (tenths / 10, tenths % 10);
            if tenth == 0 { format!("{whole} s") } else { format!("{whole}.{tenth} s") }
        }
        60..3_600 => two((seconds / 60, "min"), (seconds % 60, "s")),
        3_600..86_400 => two((minutes / 60, "h"), (minutes % 60, "min")),
        _ => two((hours / 24, "d"), (hours % 24, "h")),
    }
}

/// [`span`] of a standard library duration.
pub(crate) fn duration(time: Duration) -> String {
    span(time.into())
}

fn two((large, large_unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// A time in the local zone: `14:05:00` today, else `Tue 2026-11-17 14:05:00`.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> String {
    let (Some(then), Some(today)) = (local(at), local(now)) else { return "never".to_owned() };
    if then.date() == today.date() {
        then.strftime("%H:%M:%S").to_string()
    } else {
        then.strftime("%a %Y-%m-%d %H:%M:%S").to_string()
    }
}

/// A time in the local zone, with the zone: `Tue 2026-11-17 14:05:00 CET`.
pub(crate) fn moment_in_full(at: Timestamp) -> String {
    local(at).map_or_else(|| "never".to_owned(), |then| then.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string())
}

fn local(at: Timestamp) -> Option<jiff::Zoned> {
    let micros = i64::try_from(at.as_micros()).ok()?;
    Some(jiff::Timestamp::from_microsecond(micros).ok()?.to_zoned(TimeZone::system()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!(
            [0, 999, 1_000, 12_345, 1_000_000].map(count),
            ["0", "999", "1,000", "12,345", "1,000,000"]
        );
        assert_eq!(counted(1, "requests"), "1 request");
        assert_eq!(counted(2_000, "tokens"), "2,000 tokens");
    }

    #[cfg(feature = "pipeline")]
    #[test]
    fn sizes_are_rounded_up() {
        let texts = [0, 999, 1_000, 1_001, 2_500_000, 1_630_000_000].map(bytes);
        assert_eq!(texts, ["0 B", "999 B", "1 kB", "1.1 kB", "2.5 MB", "1.7 GB"]);
    }

    #[test]
    fn durations_are_rounded_up() {
        let texts =
            [1, 250_000, 1_000_000, 15_606_836, 60_000_000, 125_000_001, 66_276_561_354, 604_800_000_000]
                .map(|micros| span(Span::from_micros(micros)));
        assert_eq!(texts, ["1 ms", "250 ms", "1 s", "15.7 s", "1 min", "2 min 6 s", "18 h 25 min", "7 d"]);
    }
}
