//! Tracks which consumers without limits already had their counters reset.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::{ConsumerId, Hour};

/// The most tracked consumers; an evicted one is reset once more.
const REMEMBERED_MAX: usize = 100_000;

/// The consumers without limits whose counters were reset. Limits change with the records and the hour, so entries last that
/// long.
#[derive(Default)]
pub(super) struct ResetOnce(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    as_of: Option<(Hour, u64)>,
    consumers: HashSet<ConsumerId>,
}

impl ResetOnce {
    /// Whether this is the consumer's first reset in this hour and generation; records it. A caller with older records is
    /// never first: the consumer may have limits and counters by now.
    pub(super) fn is_first(&self, consumer: &ConsumerId, hour: Hour, generation: u64) -> bool {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let as_of = Some((hour, generation));
        if as_of < remembered.as_of {
            return false;
        }
        if as_of > remembered.as_of || remembered.consumers.len() >= REMEMBERED_MAX {
            remembered.consumers.clear();
            remembered.as_of = as_of;
        }
        !remembered.consumers.contains(consumer) && remembered.consumers.insert(consumer.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_reset_once_and_never_by_older_records() {
        let (c, hour): (ConsumerId, Hour) = ("c".parse().unwrap(), "2026-06-01-12".parse().unwrap());
        let next: Hour = "2026-06-01-13".parse().unwrap();
        let resets = ResetOnce::default();
        assert!(resets.is_first(&c, hour, 1) && !resets.is_first(&c, hour, 1));
        assert!(resets.is_first(&c, hour, 2), "the records have changed");
        assert!(!resets.is_first(&c, hour, 1), "older records");
        assert!(!resets.is_first(&"d".parse().unwrap(), hour, 1), "older records, another consumer");
        assert!(resets.is_first(&c, next, 2));
    }
}
