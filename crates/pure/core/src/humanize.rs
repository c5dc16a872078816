//! Numbers, durations, times and texts as people read them: in sentences about meters and jobs.
//!
//! ```
//! use tollway_core::{Span, humanize};
//!
//! assert_eq!(humanize::counted(2_000, "tokens"), "2,000 tokens");
//! assert_eq!(humanize::span(Span::from_secs(125)), "2 min 5 s");
//! ```

use jiff::tz::TimeZone;

use crate::{Span, Timestamp, is_invisible};

/// A number with thousands separators: `1,000,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (left, digit) in (0..digits.len()).rev().zip(digits.chars()) {
        text.push(digit);
        if left > 0 && left.is_multiple_of(3) {
            text.push(',');
        }
    }
    text
}

/// A number and its unit: `1 request`, `2 requests`. `unit` is plural, as in limits.
pub fn counted(number: u64, unit: &str) -> String {
    match unit.strip_suffix('s') {
        Some(one) if number == 1 => format!("1 {one}"),
        _ => format!("{} {unit}", count(number)),
    }
}

/// A duration, rounded up: `250 ms`, `15.7 s`, `2 min 5 s`, `18 h 25 min`, `6 d 23 h`.
pub fn span(span: Span) -> String {
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

/// A time in this zone: `14:05:00` today, else `Tue 2026-11-17 14:05:00`.
pub fn moment(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let (Some(then), Some(today)) = (zoned(at, zone), zoned(now, zone)) else { return "never".to_owned() };
    if then.date() == today.date() {
        then.strftime("%H:%M:%S").to_string()
    } else {
        then.strftime("%a %Y-%m-%d %H:%M:%S").to_string()
    }
}

/// A time in this zone, with the zone: `Tue 2026-11-17 14:05:00 CET`.
pub fn moment_in_full(at: Timestamp, zone: &TimeZone) -> String {
    zoned(at, zone)
        .map_or_else(|| "never".to_owned(), |then| then.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string())
}

/// None of what never comes.
fn zoned(at: Timestamp, zone: &TimeZone) -> Option<jiff::Zoned> {
    if at == Timestamp::MAX {
        return None;
    }
    let micros = i64::try_from(at.as_micros()).ok()?;
    Some(jiff::Timestamp::from_microsecond(micros).ok()?.to_zoned(zone.clone()))
}

/// The text on one line and without invisible characters: a vendor must not send escape sequences to a terminal.
pub fn printable(text: &str) -> String {
    let replaced: String = text.chars().map(|c| if is_invisible(c) { ' ' } else { c }).collect();
    replaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A key or another name on one line, with its spaces as they are.
pub fn printable_name(text: &str) -> String {
    text.chars().map(|c| if is_invisible(c) { '\u{fffd}' } else { c }).collect()
}

fn two((large, large_unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
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

    #[test]
    fn text_of_a_vendor_is_printable() {
        assert_eq!(printable("a\u{1b}[31m\n\tb  c"), "a [31m b c");
        assert_eq!(printable("a\u{202e}b\u{2028}c"), "a b c");
        assert_eq!(printable_name("a\u{1b} b"), "a\u{fffd} b");
    }

    #[test]
    fn time_of_another_day_has_its_date() {
        let (now, zone) = (Timestamp::from_secs(1_000_000), TimeZone::UTC);
        assert_eq!(moment(now, now, &zone), "13:46:40");
        assert_eq!(moment(Timestamp::EPOCH, now, &zone), "Thu 1970-01-01 00:00:00");
        assert_eq!(moment_in_full(now, &zone), "Mon 1970-01-12 13:46:40 UTC");
        assert_eq!(moment(Timestamp::MAX, now, &zone), "never");
    }

    #[test]
    fn durations_are_rounded_up() {
        let texts =
            [1, 250_000, 1_000_000, 15_606_836, 60_000_000, 125_000_001, 66_276_561_354, 604_800_000_000]
                .map(|micros| span(Span::from_micros(micros)));
        assert_eq!(texts, ["1 ms", "250 ms", "1 s", "15.7 s", "1 min", "2 min 6 s", "18 h 25 min", "7 d"]);
    }
}
