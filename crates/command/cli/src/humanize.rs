//! Formats numbers, durations and times for people, in the zone of this machine.

use std::time::Duration;

use jiff::tz::TimeZone;
use tollway::Timestamp;
use tollway::core::humanize;
pub(crate) use tollway::core::humanize::{count, counted, span};

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

/// [`span`] of a standard library duration.
pub(crate) fn duration(time: Duration) -> String {
    span(time.into())
}

/// A time in the local zone: `14:05:00` today, else `Tue 2026-11-17 14:05:00`.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> String {
    humanize::moment(at, now, &TimeZone::system())
}

/// A time in the local zone, with the zone: `Tue 2026-11-17 14:05:00 CET`.
pub(crate) fn moment_in_full(at: Timestamp) -> String {
    humanize::moment_in_full(at, &TimeZone::system())
}

#[cfg(all(test, feature = "pipeline"))]
mod tests {
    #[test]
    fn sizes_are_rounded_up() {
        let texts = [0, 999, 1_000, 1_001, 2_500_000, 1_630_000_000].map(super::bytes);
        assert_eq!(texts, ["0 B", "999 B", "1 kB", "1.1 kB", "2.5 MB", "1.7 GB"]);
    }
}
