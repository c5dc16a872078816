//! Leases: units reserved in the store ahead of time and spent in process.
//!
//! A policy can lease only if all its limits are windows. Each lease belongs to one subject. A lease is an ordinary take
//! for the cost of many calls, so leases and takes together never exceed the limit. It holds at most one second of
//! measured demand and ends before its window does; unspent units are returned. A crash loses the unspent units until
//! the window ends.

mod refill;
mod subject_lease;
mod sweep;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::Mutex as AsyncMutex;
use tollway_core::{Booking, Cost, FastDecision, Policy, Subject, Timestamp};

pub(crate) use refill::{LeaseError, LeaseOutcome, take};
pub(crate) use subject_lease::{EndedLease, SubjectLease};
pub(crate) use sweep::{give_back_all, sweep_in_background};

const SHARDS: usize = 64;

/// The most leased subjects per shard of one policy; takes for further subjects go to the store.
const SUBJECTS_PER_SHARD_MAX: usize = 2_048;

type LeasesBySubject = HashMap<Box<str>, SubjectLease, RandomState>;

/// Aligned to its own cache lines, which avoids false sharing between threads that use different shards.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<LeasesBySubject>);

impl Shard {
    fn lock(&self) -> MutexGuard<'_, LeasesBySubject> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leases of one policy, by subject.
pub(crate) struct Leases {
    shards: Box<[Shard]>,
    hasher: RandomState,
}

impl Leases {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { shards, hasher: RandomState::default() }
    }

    /// Spends from the subject's lease if it has enough left.
    #[inline]
    pub(crate) fn spend(
        &self,
        policy: &Arc<Policy>,
        subject: &str,
        cost: &Cost,
        now: Timestamp,
    ) -> Option<FastDecision> {
        let mut subjects = self.shard(subject);
        let window_ends = subjects.get_mut(subject)?.spend(policy, cost.amounts(), now)?;
        Some(FastDecision::Granted { now, good_until: window_ends })
    }

    /// Returns units of a permit to the lease of its window. False if there is no such lease.
    pub(crate) fn credit(
        &self,
        policy: &Arc<Policy>,
        subject: &str,
        amounts: &[u64],
        window_ends: Timestamp,
    ) -> bool {
        self.shard(subject).get_mut(subject).is_some_and(|lease| lease.credit(policy, amounts, window_ends))
    }

    /// The lock that lets one caller at a time refill the subject's lease; none if too many subjects have one.
    fn refill_lock(&self, subject: &Subject) -> Option<Arc<AsyncMutex<()>>> {
        let mut subjects = self.shard(subject.as_str());
        if let Some(lease) = subjects.get(subject.as_str()) {
            return Some(Arc::clone(&lease.refill_lock));
        }
        if subjects.len() >= SUBJECTS_PER_SHARD_MAX {
            return None;
        }
        let new = SubjectLease::default();
        let refill_lock = Arc::clone(&new.refill_lock);
        subjects.insert(subject.as_str().into(), new);
        Some(refill_lock)
    }

    /// How many calls the next lease should pay for, based on the demand the last one measured.
    fn next_size(&self, subject: &str, most: u64, now: Timestamp) -> u64 {
        self.shard(subject).get(subject).map_or(1, |lease| lease.next_size(now)).clamp(1, most.max(1))
    }

    /// Ends the subject's lease. Returns it if it has unspent units.
    pub(crate) fn end(&self, subject: &str) -> Option<EndedLease> {
        self.shard(subject).get_mut(subject)?.end()
    }

    fn begin(&self, subject: &str, lease: Lease) {
        if let Some(subject_lease) = self.shard(subject).get_mut(subject) {
            subject_lease.begin(lease);
        }
    }

    /// Ends the leases that match and returns those with unspent units. Drops idle subjects.
    fn end_where(&self, matches: impl Fn(&SubjectLease) -> bool) -> Vec<(Subject, EndedLease)> {
        let mut ended = Vec::new();
        for shard in &self.shards {
            let mut subjects = shard.lock();
            for (subject, lease) in subjects.iter_mut().filter(|(_, lease)| matches(lease)) {
                let unspent = lease.end();
                ended.extend(Subject::new(subject).ok().zip(unspent));
            }
            subjects.retain(|_, lease| !lease.is_idle());
        }
        ended
    }

    #[inline]
    fn shard(&self, subject: &str) -> MutexGuard<'_, LeasesBySubject> {
        let index = usize::try_from(self.hasher.hash_one(subject) % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock()
    }
}

/// Whether a lease under one policy can be spent under the other: same meters, amounts in the same order.
pub(super) fn same_meters(one: &Arc<Policy>, other: &Arc<Policy>) -> bool {
    // Copies of one policy share the key, and the key identifies the meters.
    Arc::ptr_eq(one.key(), other.key())
        || (one.units() == other.units() && one.limits().len() == other.limits().len() && {
            one.limits().iter().zip(other.limits()).all(|(one, other)| one.identity() == other.identity())
        })
}

/// A lease as granted. Its times are local and err on the early side.
pub(crate) struct Lease {
    /// The policy at the time of the take; the lease settles under it even after a reload.
    pub(crate) policy: Arc<Policy>,
    pub(crate) booking: Booking,
    pub(crate) reserved: Cost,
    /// How many calls it pays for.
    pub(crate) size: u64,
    pub(crate) began: Timestamp,
    pub(crate) ends: Timestamp,
    pub(crate) window_ends: Timestamp,
}
