//! Helpers for the tests of the file store: a manual clock, and takes that wait for their answer.
#![allow(dead_code, reason = "each test file uses its part")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tempfile::TempDir;
use tollway_core::{
    Action, Charge, Charges, Clock, Operation, Outcome, PermitId, Policy, Reading, Store, StoreError,
    Subject, Terms, Timestamp,
};
use tollway_memory::FileStore;

/// Noon of some day, so that no window ends while a test runs.
pub(crate) const NOON: Timestamp = Timestamp::from_secs(20_000 * 86_400 + 43_200);

/// A clock that stands until it is set.
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    pub(crate) fn at_noon() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(NOON.as_micros())))
    }

    pub(crate) fn set(&self, time: Timestamp) {
        self.0.store(time.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// A temporary directory, and a path in it without a file.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("limits");
    (directory, path)
}

pub(crate) fn open(path: &Path) -> FileStore {
    FileStore::open(path, HandClock::at_noon()).unwrap()
}

pub(crate) fn policy(limit: &str) -> Policy {
    Policy::new("adobe", [limit]).unwrap()
}

pub(crate) fn subject(text: &str) -> Subject {
    Subject::new(text).unwrap()
}

/// Takes the default cost under every policy for the subject. Returns whether it was granted.
pub(crate) fn try_take(
    store: &FileStore,
    policies: &[&Policy],
    subject: &Subject,
) -> Result<bool, StoreError> {
    let outcome = wait(store.apply(&[take_of(charges(policies, subject))]))?.remove(0);
    match outcome {
        Outcome::Decided(decision) => Ok(decision.is_granted()),
        other => panic!("not a decision: {other:?}"),
    }
}

pub(crate) fn take(store: &FileStore, policy: &Policy, subject: &Subject) -> bool {
    try_take(store, &[policy], subject).unwrap()
}

pub(crate) fn charges(policies: &[&Policy], subject: &Subject) -> Charges {
    policies.iter().map(|policy| Charge::new(Arc::new((*policy).clone()), subject.clone())).collect()
}

pub(crate) fn take_of(charges: Charges) -> Operation {
    Operation { charges, action: Action::Take(Terms::now(PermitId(1))) }
}

pub(crate) fn peek(store: &FileStore, policy: &Policy, subject: &Subject) -> Reading {
    let charges = charges(&[policy], subject);
    let outcome = wait(store.apply(&[Operation { charges, action: Action::Peek }])).unwrap().remove(0);
    match outcome {
        Outcome::Peeked(charges) => charges[0].readings[0],
        other => panic!("not a reading: {other:?}"),
    }
}

pub(crate) fn used(store: &FileStore, policy: &Policy, subject: &Subject) -> u64 {
    peek(store, policy, subject).used
}

/// Waits on this thread; the store needs no runtime.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
