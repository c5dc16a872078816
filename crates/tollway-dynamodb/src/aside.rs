//! Calls whose outcome is unclear, laid aside until they are sent again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;
use tollway_remote::{Call, RETRY_FOR, Tag};

/// How many calls are kept; more are given up, and count as spent. An outage with many subjects makes many.
const ASIDE_MAX: usize = 16_384;

/// What is known of calls that were not answered yet, by tag: of each tag at most one is on its way.
#[derive(Debug)]
pub(crate) struct Aside<T>(Mutex<HashMap<Tag, Laid<T>>>);

#[derive(Debug)]
struct Laid<T> {
    sequence: u64,
    since: Instant,
    known: T,
}

impl<T> Default for Aside<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Aside<T> {
    /// What was laid aside of this very call. What there is of an earlier one of its tag is forgotten.
    pub(crate) fn take(&self, call: &Call) -> Option<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&call.tag).filter(|laid| laid.sequence == call.sequence).map(|laid| laid.known)
    }

    /// Lays it aside, if there is room: those that nobody sends again any more make some.
    pub(crate) fn lay(&self, call: &Call, known: T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ASIDE_MAX {
            all.retain(|_, laid| laid.since.elapsed() < RETRY_FOR);
        }
        if all.len() < ASIDE_MAX {
            all.insert(call.tag.clone(), Laid { sequence: call.sequence, since: Instant::now(), known });
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
    fn a_call_finds_its_own_and_no_earlier_ones() {
        let aside = Aside::default();
        aside.lay(&call("s", 1), "first");
        assert_eq!(aside.take(&call("other", 1)), None);
        assert_eq!(aside.take(&call("s", 1)), Some("first"));
        aside.lay(&call("s", 1), "first");
        assert_eq!(aside.take(&call("s", 2)), None);
        assert_eq!(aside.take(&call("s", 1)), None, "it was overtaken");
    }

    /// An outage with many subjects does not fill the memory, and is over some time.
    #[tokio::test(start_paused = true)]
    async fn there_is_room_for_so_many_and_again_when_they_are_too_old() {
        let aside = Aside::default();
        (0..ASIDE_MAX + 100).for_each(|number| aside.lay(&call(&number.to_string(), 1), number));
        assert_eq!(aside.0.lock().unwrap().len(), ASIDE_MAX);
        tokio::time::advance(RETRY_FOR).await;
        aside.lay(&call("new", 1), 7);
        assert_eq!(aside.0.lock().unwrap().len(), 1);
        assert_eq!(aside.take(&call("new", 1)), Some(7));
    }
}
