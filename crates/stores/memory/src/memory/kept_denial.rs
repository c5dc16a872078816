//! The last denial of a caller, which the store repeats without a lock.
//!
//! A subject that is denied is often asked for again at once. Until the cost fits, the answer is the same, unless an operation
//! gives units back: that changes the shard's counter.

use tollway_core::{FastDecision, Span, Timestamp};

use crate::sync::{AtomicU64, Mutex, Ordering, TryLockError};

/// The longest time for which a denial is repeated.
const KEPT_FOR: Span = Span::from_secs(1);

/// A place for the last denial under one policy, at its default cost. Give each thread its own: threads that share one keep
/// each other from using it.
#[derive(Debug, Default)]
pub struct KeptDenial {
    /// The hash of the subject that was denied last.
    hash: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    subject: String,
    until: Timestamp,
    retry_at: Timestamp,
    limit: usize,
    /// The changes of the shard when it was decided.
    changes: u64,
}

impl KeptDenial {
    /// Whether the subject with this hash was denied last: it may be kept.
    #[inline(always)]
    pub(super) fn is_of(&self, hash: u64) -> bool {
        self.hash.load(Ordering::Relaxed) == hash
    }

    /// Notes which subject was denied. Only the second denial in a row is kept: most are not asked for again.
    #[inline(always)]
    pub(super) fn note(&self, hash: u64, decided: Option<&FastDecision>) {
        if let Some(FastDecision::Denied { .. }) = decided {
            self.hash.store(hash, Ordering::Relaxed);
        }
    }

    /// The denial again, if it still holds. `changes` is the shard's counter.
    pub(super) fn repeat(&self, subject: &str, now: Timestamp, changes: u64) -> Option<FastDecision> {
        let kept = match self.kept.try_lock() {
            Ok(kept) => kept,
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => return None,
        };
        let holds = now < kept.until && kept.changes == changes && kept.subject == subject;
        holds.then_some(FastDecision::Denied { now, retry_at: kept.retry_at, limit: kept.limit })
    }

    /// Keeps a denial. `changes` is the shard's counter before it was decided.
    pub(super) fn keep(&self, subject: &str, decided: Option<&FastDecision>, changes: u64) {
        let Some(FastDecision::Denied { now, retry_at, limit }) = decided else { return };
        if let Ok(mut kept) = self.kept.try_lock() {
            kept.subject.clear();
            kept.subject.push_str(subject);
            (kept.until, kept.retry_at) = ((*retry_at).min(now.plus(KEPT_FOR)), *retry_at);
            (kept.limit, kept.changes) = (*limit, changes);
        }
    }
}
