//! Waits for a lock that other threads hold for nanoseconds.
//!
//! Threads that take for one subject fight for one lock. A thread that looks at the lock all the time moves its cache line
//! from core to core, and each take then waits for memory. A thread that backs off leaves the line where it is, so that the
//! other one makes many takes in the meantime: by the bench, two threads on one subject then cost half as much.

use crate::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How many times a thread pauses before it looks at the lock again. All together take some microseconds; then the thread
/// sleeps until the lock is free, because its holder may not be running.
const PAUSES: [u32; 4] = [32, 64, 128, 256];

/// Locks. The engine does not panic under a lock; if it did, the account would stay as it was.
#[inline(always)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => lock_contended(mutex),
    }
}

#[cold]
fn lock_contended<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for pauses in PAUSES {
        (0..pauses).for_each(|_| std::hint::spin_loop());
        if let Ok(guard) = mutex.try_lock() {
            return guard;
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
