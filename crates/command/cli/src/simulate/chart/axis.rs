//! Positions and labels of ticks.

use jiff::tz::TimeZone;
use tollway::{Span, Timestamp};

/// The most ticks.
const TICKS_MAX: u64 = 8;

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLI;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Intervals of time ticks, in microseconds.
const TIME_STEPS: [u64; 26] = [
    MILLI,
    5 * MILLI,
    20 * MILLI,
    100 * MILLI,
    500 * MILLI,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    30 * DAY,
    90 * DAY,
    365 * DAY,
    3_650 * DAY,
];

/// Round numbers from 0 to at least `most`, at most six of them.
pub(super) fn amounts(most: u64) -> Vec<u64> {
    let most = most.max(1);
    // The smallest of 1, 2, 5, 10, 20, 50, ... for at most five steps.
    let tens = (0..=18).map(|power| 10u64.pow(power));
    let steps = tens.flat_map(|ten| [ten, ten.saturating_mul(2), ten.saturating_mul(5)]);
    let step = steps.into_iter().find(|step| step.saturating_mul(5) >= most).unwrap_or(most);
    (0..=most.div_ceil(step)).map(|index| index * step).collect()
}

/// Round times in the local zone, with labels.
pub(super) fn moments(from: Timestamp, to: Timestamp) -> Vec<(Timestamp, String)> {
    let length = to.since(from).as_micros().max(1);
    let last = TIME_STEPS[TIME_STEPS.len() - 1];
    let step = TIME_STEPS.into_iter().find(|step| length / step <= TICKS_MAX).unwrap_or(last);
    let format = match step {
        step if step < SECOND => "%H:%M:%S%.3f",
        step if step < MINUTE => "%H:%M:%S",
        step if step < DAY && length <= DAY => "%H:%M",
        step if step < DAY => "%a %H:%M",
        step if step < 90 * DAY => "%b %-d",
        _ => "%b %Y",
    };
    // Ticks are round in local time, not in UTC.
    let offset = offset_at(from).rem_euclid(i64::try_from(step).unwrap_or(i64::MAX)).unsigned_abs();
    let first = (from.as_micros() + offset).div_ceil(step) * step;
    let ticks =
        (first.saturating_sub(offset)..=to.as_micros()).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let ticks = ticks.map(Timestamp::from_micros).filter(|at| *at >= from);
    ticks.take(2 * TICKS_MAX as usize).map(|at| (at, label(at, format))).collect()
}

/// A time range, for the tooltip of a bar.
pub(super) fn stretch(from: Timestamp, width: Span) -> String {
    let format = match width.as_micros() {
        width if width < SECOND => "%H:%M:%S%.3f",
        width if width < MINUTE => "%a %H:%M:%S",
        width if width < DAY => "%a %b %-d %H:%M",
        _ => "%a %Y-%m-%d",
    };
    format!("{} to {}", label(from, format), label(from.plus(width), format))
}

fn label(at: Timestamp, format: &str) -> String {
    local(at).map_or_else(String::new, |local| local.strftime(format).to_string())
}

fn offset_at(at: Timestamp) -> i64 {
    local(at).map_or(0, |local| i64::from(local.offset().seconds()) * 1_000_000)
}

fn local(at: Timestamp) -> Option<jiff::Zoned> {
    let time = jiff::Timestamp::from_microsecond(i64::try_from(at.as_micros()).ok()?).ok()?;
    Some(time.to_zoned(TimeZone::system()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_ticks_are_round_and_few() {
        assert_eq!(amounts(0), [0, 1]);
        assert_eq!(amounts(4), [0, 1, 2, 3, 4]);
        assert_eq!(amounts(11), [0, 5, 10, 15]);
        assert_eq!(amounts(200), [0, 50, 100, 150, 200]);
        assert_eq!(amounts(23_400), [0, 5_000, 10_000, 15_000, 20_000, 25_000]);
        for most in [1, 7, 99, 1_001, u64::from(u32::MAX), 1 << 53] {
            let ticks = amounts(most);
            assert!(ticks.len() <= 6 && ticks.last().unwrap() >= &most, "{most}: {ticks:?}");
        }
    }

    #[test]
    fn time_ticks_are_few_and_within_the_range() {
        for length in [1, 1_000, 70_000_000, 3_600_000_000, 86_400_000_000, 40 * DAY, 9_000 * DAY] {
            let from = Timestamp::from_micros(1_763_208_000_123_456);
            let to = from.plus(Span::from_micros(length));
            let ticks = moments(from, to);
            assert!(ticks.len() <= 9, "{length}: {ticks:?}");
            assert!(ticks.iter().all(|(at, _)| *at >= from && *at <= to));
        }
    }
}
