//! The date range in which a record is valid.

use tollway_core::Timestamp;

use crate::date::write_date;
use crate::hour::Hour;

/// The date range in which a record is valid, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Validity {
    from: Timestamp,
    to: Timestamp,
}

/// A range that ends before it begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the record would end ({to}) before it begins ({from}): swap the dates",
    from = write_date(*from), to = write_date(*to)
)]
pub struct Reversed {
    /// The given start.
    pub from: Timestamp,
    /// The given end.
    pub to: Timestamp,
}

impl Validity {
    /// Rejects a range that ends before it begins.
    pub fn new(from: Timestamp, to: Timestamp) -> Result<Self, Reversed> {
        if to < from { Err(Reversed { from, to }) } else { Ok(Self { from, to }) }
    }

    /// Its first moment.
    pub fn from(&self) -> Timestamp {
        self.from
    }

    /// Its last moment.
    pub fn to(&self) -> Timestamp {
        self.to
    }

    /// Whether it contains any moment of the hour.
    pub fn touches(&self, hour: Hour) -> bool {
        self.from <= hour.last() && self.to >= hour.first()
    }
}

#[cfg(test)]
mod tests {
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
    fn a_reversed_range_is_refused() {
        let (early, late) = (Timestamp::from_secs(1), Timestamp::from_secs(2));
        let error = Validity::new(late, early).unwrap_err();
        assert_eq!(error, Reversed { from: late, to: early });
        assert!(error.to_string().contains("(1970-01-01T00:00:01Z) before it begins (1970-01-01T00:00:02Z)"));
        assert!(Validity::new(early, early).is_ok());
    }
}
