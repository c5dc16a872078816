//! Which samples of the counts are kept.

use tollway_core::{Span, Timestamp};

use super::administration::{SAMPLES_KEPT, SAMPLES_RECENT};

const MINUTE: u64 = Span::from_mins(1).as_micros();
const HOUR: u64 = Span::from_mins(60).as_micros();

/// The minute of a sample: a second one in it is not kept.
pub fn minute_of(at: Timestamp) -> i64 {
    stored(at.as_micros() / MINUTE * MINUTE)
}

/// Samples before the first time are forgotten; those before the second, unless they begin an hour ([`HOUR_MICROS`]).
pub fn forgotten_before(now: Timestamp) -> [i64; 2] {
    [SAMPLES_KEPT, SAMPLES_RECENT].map(|age| stored(now.minus(age).as_micros()))
}

/// The length of an hour, as times are stored.
pub const HOUR_MICROS: i64 = HOUR.cast_signed();

fn stored(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}
