//! The locks of the memory store: those of `std`, or of shuttle for the test of thread schedules.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, PoisonError, TryLockError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, PoisonError, TryLockError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
