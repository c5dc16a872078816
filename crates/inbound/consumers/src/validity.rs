//! The date range in which a record is valid.

use crate::date::{RecordDate, write_date};
use crate::hour::Hour;

/// The date range in which a record is valid, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Validity {
    from: RecordDate,
    to: RecordDate,
}

/// A range that ends before it begins.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the record would end ({to}) before it begins ({from}): swap the dates",
    from = write_date(*from), to = write_date(*to)
)]
pub struct Reversed {
    /// The given start.
    pub from: RecordDate,
    /// The given end.
    pub to: RecordDate,
}

tollway_core::debug_as_display!(Reversed);

impl Validity {
    /// Rejects a range that ends before it begins.
    pub fn new(from: impl Into<RecordDate>, to: impl Into<RecordDate>) -> Result<Self, Reversed> {
        let (from, to) = (from.into(), to.into());
        if to < from { Err(Reversed { from, to }) } else { Ok(Self { from, to }) }
    }

    /// Its first moment.
    pub fn from(&self) -> RecordDate {
        self.from
    }

    /// Its last moment.
    pub fn to(&self) -> RecordDate {
        self.to
    }

    /// Whether it contains any moment of the hour.
    pub fn touches(&self, hour: Hour) -> bool {
        self.from <= hour.last().into() && self.to >= hour.first().into()
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::Timestamp;

    use super::*;
    use crate::date::read_date;

    fn touched(from: &str, to: &str) -> Vec<u32> {
        let validity = Validity::new(read_date(from).unwrap(), read_date(to).unwrap()).unwrap();
        let hour = |number: &u32| validity.touches(format!("2026-06-01-{number:02}").parse().unwrap());
        (10..15).filter(hour).collect()
    }

    /// C3: a record that begins at 12:01:47 counts for all of hour 12, one that ends at 13:00:00 for all of hour 13.
    #[test]
    fn a_record_counts_for_every_hour_it_touches() {
        assert_eq!(touched("2026-06-01T12:01:47Z", "2026-06-01T13:30:00Z"), [12, 13]);
        assert_eq!(touched("2026-06-01T12:59:59.999Z", "2026-06-01T13:00:00Z"), [12, 13]);
        assert_eq!(touched("2026-06-01T12:00:00Z", "2026-06-01T12:59:59Z"), [12]);
        assert_eq!(touched("2026-06-01T12:00:00Z", "2026-06-01T12:00:00Z"), [12]);
        assert_eq!(touched("2026-05-01T00:00:00Z", "2026-06-01T10:00:00Z"), [10]);
        assert_eq!(touched("2026-06-01T14:59:59.999Z", "2026-07-01T00:00:00Z"), [14]);
        assert_eq!(touched("2026-06-01T15:00:00Z", "2026-07-01T00:00:00Z"), Vec::<u32>::new());
    }

    #[test]
    fn a_record_that_begins_after_the_range_of_timestamps_counts_for_no_hour() {
        let later = Validity::new(read_date("2300-01-01T00:00:00Z").unwrap(), RecordDate::MAX).unwrap();
        assert!(!later.touches(Hour::LAST) && !later.touches(Hour::of(Timestamp::MAX)));
    }

    #[test]
    fn a_reversed_range_is_refused() {
        let (early, late) = (Timestamp::from_secs(1), Timestamp::from_secs(2));
        let error = Validity::new(late, early).unwrap_err();
        assert_eq!(error, Reversed { from: late.into(), to: early.into() });
        assert!(error.to_string().contains("(1970-01-01T00:00:01Z) before it begins (1970-01-01T00:00:02Z)"));
        assert!(Validity::new(early, early).is_ok());
    }
}
