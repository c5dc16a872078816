//! Locks on accounts within this process: one call at a time, in order of arrival.
//!
//! Calls of one tag are serialised anyway. Calls of different tags may share an account, as users share a limit for all of
//! them: without this they would lose races against each other, and pay for every one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// At most one per account of the calls in flight.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

/// Accounts that are locked until this is dropped.
pub(crate) struct Hold<'a> {
    locks: &'a Locks,
    keys: &'a BTreeSet<String>,
    held: Vec<OwnedMutexGuard<()>>,
}

impl Locks {
    /// Waits until no other call of this process holds one of the accounts. All calls lock in the same order.
    pub(crate) async fn hold<'a>(&'a self, keys: &'a BTreeSet<String>) -> Hold<'a> {
        let wanted: Vec<_> = {
            let mut locks = self.locks();
            keys.iter().map(|key| Arc::clone(locks.entry(key.clone()).or_default())).collect()
        };
        let mut hold = Hold { locks: self, keys, held: Vec::with_capacity(wanted.len()) };
        for lock in wanted {
            hold.held.push(lock.lock_owned().await);
        }
        hold
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<String, Arc<tokio::sync::Mutex<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold<'_> {
    /// Unlocks, and drops the locks that no call waits for.
    fn drop(&mut self) {
        let mut locks = self.locks.locks();
        self.held.clear();
        for key in self.keys {
            if locks.get(key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
                locks.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn calls_on_one_account_are_serialised_and_leave_no_lock() {
        let locks = Locks::default();
        let (one, two, three) = (keys(&["a", "z"]), keys(&["b", "z"]), keys(&["c"]));
        let first = locks.hold(&one).await;
        let second = locks.hold(&two);
        tokio::pin!(second);
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(locks.hold(&three).await);
        drop(first);
        drop(second.await);
        assert!(locks.locks().is_empty());
    }

    #[tokio::test]
    async fn a_cancelled_waiter_leaves_no_lock() {
        let locks = Locks::default();
        let (one, two) = (keys(&["z"]), keys(&["b", "z"]));
        let first = locks.hold(&one).await;
        {
            let waiting = locks.hold(&two);
            tokio::pin!(waiting);
            assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        }
        drop(first);
        assert!(locks.locks().is_empty());
    }
}
