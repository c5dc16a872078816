//! Calls whose outcome is unclear, remembered until they are sent again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use tollway_remote::{Call, RETRY_FOR, Tag};

/// How many calls are remembered. Beyond that a call is given up and counts as spent: an outage with many subjects could
/// fill the memory.
const CALLS_MAX: usize = 16_384;

/// What is known of each unresolved call, by tag: a tag has at most one call in flight.
#[derive(Debug)]
pub(crate) struct UnresolvedCalls<T>(Mutex<HashMap<Tag, Unresolved<T>>>);

#[derive(Debug)]
struct Unresolved<T> {
    sequence: u64,
    since: Instant,
    known: T,
}

impl<T> Default for UnresolvedCalls<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> UnresolvedCalls<T> {
    /// Takes out what is known of this call. An entry of an earlier call of its tag is dropped.
    pub(crate) fn take(&self, call: &Call) -> Option<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&call.tag).filter(|entry| entry.sequence == call.sequence).map(|entry| entry.known)
    }

    /// Remembers it if there is room; evicts entries older than [`RETRY_FOR`].
    pub(crate) fn keep(&self, call: &Call, known: T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CALLS_MAX {
            all.retain(|_, entry| entry.since.elapsed() < RETRY_FOR);
        }
        if all.len() < CALLS_MAX {
            all.insert(
                call.tag.clone(),
                Unresolved { sequence: call.sequence, since: Instant::now(), known },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollway_core::{Action, Charge, Operation, Policy, Subject};

    use super::*;

    fn call(subject: &str, sequence: u64) -> Call {
        let policy = Policy::new("p", ["1 / minute"]).unwrap();
        let subject = Subject::new(subject).unwrap();
        let operation = Operation::one(Charge::new(Arc::new(policy), subject), Action::Peek);
        Call { tag: Tag::of(&operation).unwrap(), sequence, again: false, operations: [].into() }
    }

    #[test]
    fn a_call_finds_its_own_entry_and_drops_an_earlier_one() {
        let calls = UnresolvedCalls::default();
        calls.keep(&call("s", 1), "first");
        assert_eq!(calls.take(&call("other", 1)), None);
        assert_eq!(calls.take(&call("s", 1)), Some("first"));
        calls.keep(&call("s", 1), "first");
        assert_eq!(calls.take(&call("s", 2)), None);
        assert_eq!(calls.take(&call("s", 1)), None, "it was overtaken");
    }

    /// An outage with many subjects does not fill the memory, and old entries make room again.
    #[tokio::test(start_paused = true)]
    async fn bounded_and_old_entries_are_evicted() {
        let calls = UnresolvedCalls::default();
        (0..CALLS_MAX + 100).for_each(|number| calls.keep(&call(&number.to_string(), 1), number));
        assert_eq!(calls.0.lock().unwrap().len(), CALLS_MAX);
        tokio::time::advance(RETRY_FOR).await;
        calls.keep(&call("new", 1), 7);
        assert_eq!(calls.0.lock().unwrap().len(), 1);
        assert_eq!(calls.take(&call("new", 1)), Some(7));
    }
}
