//! Leases: units taken ahead from the store and spent in process.
//!
//! Only where every limit of the policy is a window, and for one subject at a time. A lease is an ordinary take of many
//! calls' cost, so leases and everything spent never exceed the limit together. It holds at most one second of measured
//! demand, ends before its window does, and what is left of it goes back. A crash loses what was left until the window
//! ends, and never gains any.

mod held;
mod refill;
mod sweep;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::Mutex as Turn;
use tollway_core::{Booking, Cost, FastDecision, Policy, Subject, Timestamp};

pub(crate) use held::{Held, Spent};
pub(crate) use refill::{Leased, Unleased, take};
pub(crate) use sweep::{give_back_all, sweep_in_background};

const SHARDS: usize = 64;

/// How many subjects of one policy may have a lease; others ask the store each time.
const SUBJECTS_PER_SHARD_MAX: usize = 2_048;

type HeldBySubject = HashMap<Box<str>, Held, RandomState>;

/// Apart from its neighbours, so that threads that take from different ones do not wait for each other's cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<HeldBySubject>);

impl Shard {
    fn lock(&self) -> MutexGuard<'_, HeldBySubject> {
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

    /// Spends from the subject's lease, if there is one with enough left.
    #[inline]
    pub(crate) fn spend(
        &self,
        policy: &Arc<Policy>,
        subject: &str,
        cost: &Cost,
        now: Timestamp,
    ) -> Option<FastDecision> {
        let mut held = self.shard(subject);
        let window_ends = held.get_mut(subject)?.spend(policy, cost.amounts(), now)?;
        Some(FastDecision::Granted { now, good_until: window_ends })
    }

    /// Gives units of a permit back to the lease of its window; whether there was one.
    pub(crate) fn credit(
        &self,
        policy: &Arc<Policy>,
        subject: &str,
        amounts: &[u64],
        window_ends: Timestamp,
    ) -> bool {
        self.shard(subject).get_mut(subject).is_some_and(|held| held.credit(policy, amounts, window_ends))
    }

    /// Who refills the subject's lease, one at a time; none if too many subjects have one.
    fn turn(&self, subject: &Subject) -> Option<Arc<Turn<()>>> {
        let mut held = self.shard(subject.as_str());
        if let Some(held) = held.get(subject.as_str()) {
            return Some(Arc::clone(&held.turn));
        }
        if held.len() >= SUBJECTS_PER_SHARD_MAX {
            return None;
        }
        let new = Held::default();
        let turn = Arc::clone(&new.turn);
        held.insert(subject.as_str().into(), new);
        Some(turn)
    }

    /// How many calls' cost to lease next, by what was spent of the last one.
    fn next_size(&self, subject: &str, most: u64, now: Timestamp) -> u64 {
        self.shard(subject).get(subject).map_or(1, |held| held.next_size(now)).clamp(1, most.max(1))
    }

    /// Ends the subject's lease: the booking, and what was spent of it, if something is left.
    pub(crate) fn end(&self, subject: &str) -> Option<Spent> {
        self.shard(subject).get_mut(subject)?.end()
    }

    fn begin(&self, subject: &str, lease: Lease) {
        if let Some(held) = self.shard(subject).get_mut(subject) {
            held.begin(lease);
        }
    }

    /// Ends what has run out by now, or everything: all that is to go back. Forgets subjects that nobody asks for.
    fn end_those(&self, over: impl Fn(&Held) -> bool) -> Vec<(Subject, Spent)> {
        let mut ended = Vec::new();
        for shard in &self.shards {
            let mut held = shard.lock();
            for (subject, held) in held.iter_mut().filter(|(_, held)| over(held)) {
                let spent = held.end();
                ended.extend(Subject::new(subject).ok().zip(spent));
            }
            held.retain(|_, held| !held.is_idle());
        }
        ended
    }

    #[inline]
    fn shard(&self, subject: &str) -> MutexGuard<'_, HeldBySubject> {
        let index = usize::try_from(self.hasher.hash_one(subject) % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock()
    }
}

/// Whether a lease under one policy can be spent under the other: the same meters, and amounts in the same order.
pub(super) fn same_meters(one: &Arc<Policy>, other: &Arc<Policy>) -> bool {
    // Copies of one policy share the key, whose identities name the meters.
    Arc::ptr_eq(one.key(), other.key())
        || (one.units() == other.units() && one.limits().len() == other.limits().len() && {
            one.limits().iter().zip(other.limits()).all(|(one, other)| one.identity() == other.identity())
        })
}

/// A lease as it was granted. Times are our clock's, and early rather than late.
pub(crate) struct Lease {
    /// What it was taken under, and so what it is settled under, whatever is in force by then.
    pub(crate) policy: Arc<Policy>,
    pub(crate) booking: Booking,
    pub(crate) reserved: Cost,
    /// How many calls' cost it is.
    pub(crate) size: u64,
    pub(crate) began: Timestamp,
    pub(crate) ends: Timestamp,
    pub(crate) window_ends: Timestamp,
}
