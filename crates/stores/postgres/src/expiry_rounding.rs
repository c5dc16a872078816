//! Expiry times of rows are rounded up to whole minutes.
//!
//! They are indexed, and a write that changes an indexed column writes all indexes. A bucket's expiry moves with every
//! grant; rounded up it moves once a minute, and a row is never deleted early.

use tollway_core::{Span, Timestamp};

const MINUTE: u64 = Span::from_mins(1).as_micros();

/// The end of the minute that this lies in.
pub(crate) fn next_minute(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.as_micros().next_multiple_of(MINUTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_earlier_and_less_than_a_minute_later() {
        for (secs, end) in [(0, 0), (1, 60), (60, 60), (61, 120)] {
            assert_eq!(next_minute(Timestamp::from_secs(secs)), Timestamp::from_secs(end));
        }
        assert_eq!(next_minute(Timestamp::MAX), Timestamp::MAX);
    }
}
