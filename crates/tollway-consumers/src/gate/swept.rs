//! Whose counters are known to be gone.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::{ConsumerId, Hour};

/// The most consumers that are remembered; one that is forgotten is swept once more.
const SWEPT_MAX: usize = 100_000;

/// The consumers that nothing limits and whose counters were removed. What limits somebody changes with the records or with
/// the hour, so that it is known for that long.
#[derive(Default)]
pub(super) struct Swept(Mutex<Known>);

#[derive(Default)]
struct Known {
    as_of: Option<(Hour, u64)>,
    consumers: HashSet<ConsumerId>,
}

impl Swept {
    /// Whether this consumer was not swept yet, in this hour and by these records. From now on it was. Who knows less than
    /// others already did is never first: the consumer may have limits by now, and counters that are needed.
    pub(super) fn is_first(&self, consumer: &ConsumerId, hour: Hour, generation: u64) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let as_of = Some((hour, generation));
        if as_of < known.as_of {
            return false;
        }
        if as_of > known.as_of || known.consumers.len() >= SWEPT_MAX {
            known.consumers.clear();
            known.as_of = as_of;
        }
        !known.consumers.contains(consumer) && known.consumers.insert(consumer.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_swept_once_and_never_by_what_is_older() {
        let (c, hour): (ConsumerId, Hour) = ("c".parse().unwrap(), "2026-06-01-12".parse().unwrap());
        let next: Hour = "2026-06-01-13".parse().unwrap();
        let swept = Swept::default();
        assert!(swept.is_first(&c, hour, 1) && !swept.is_first(&c, hour, 1));
        assert!(swept.is_first(&c, hour, 2), "the records have changed");
        assert!(!swept.is_first(&c, hour, 1), "somebody is late");
        assert!(!swept.is_first(&"d".parse().unwrap(), hour, 1), "whoever it is");
        assert!(swept.is_first(&c, next, 2));
    }
}
