//! Lines in this process: sharded, bounded, expiring by themselves.

mod entries;
mod settings;
mod shard;
mod slab;
mod table;

use std::sync::Arc;

use foldhash::fast::RandomState;
use shard::{Key, Origin, Shard};
use smallvec::SmallVec;
use table::Found;
use tollway_core::bounds::OPERATIONS_PER_BATCH_MAX;
use tollway_core::{
    Account, Action, Answer, Applied, Charge, Clock, Cost, FastDecision, Fault, Invariant, Operation,
    Outcome, Outcomes, PermitId, Policy, Reading, Retry, Settings, Span, Store, StoreError, StoreResult,
    Subject, Timestamp, apply, decide_fast,
};

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, PoisonError};

/// Into how many parts the lines are divided, each behind a lock of its own.
pub const SHARDS: usize = 64;

/// How many lines a store keeps unless told otherwise.
pub const LINES_DEFAULT: usize = 1_000_000;

/// How many lines new subjects of one policy share once the store is full of live ones.
pub const OVERFLOW_LINES: usize = 1_024;

/// Of a take without slots: only they remember whose they are.
const NOBODY: PermitId = PermitId(0);

/// Lines in this process.
///
/// Bounded: a line of a policy with one limit and a subject of up to 24 bytes takes less than 200 bytes, one of two to
/// six limits less than 400. A line that does not fit its entry (more limits, slots, a place in line) takes less than
/// 400, and 48 more for each limit, besides the ids and slots it holds. Only lines that are as good as new are
/// forgotten. Full of live ones, new subjects share 1,024 lines per policy: a flood of subjects neither resets one that
/// was denied nor shuts others out.
///
/// Ids and slots are bounded for each line and not for the store: a line remembers at most 1,024 ids and as many refunds, which
/// with ids of 128 bytes takes up to 640 KiB, and at most 10,000 slots for each limit, which take up to 700 KiB. In all that is up
/// to 640 bytes for each take with an id in the last ten minutes, and 72 for each slot that is held. Where strangers choose ids
/// or subjects, keep `lines` low, or share limits through a store outside of this process.
///
/// ```
/// use std::sync::Arc;
/// use tollway_memory::{MemoryStore, SystemClock};
///
/// let store = MemoryStore::new(Arc::new(SystemClock::new()));
/// assert_eq!(store.stats().lines, 0);
/// ```
pub struct MemoryStore {
    shards: Box<[Padded]>,
    hasher: RandomState,
    clock: Arc<dyn Clock>,
    capacity: usize,
    /// Grants after which a meter held more than its limit (I1). Must stay 0.
    violations: AtomicU64,
    overflowing: AtomicBool,
    settings: settings::Kept,
}

/// Keeps neighbours' locks off one another's cache lines.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// How full a memory store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Lines kept.
    pub lines: usize,
    /// Lines it may keep.
    pub capacity: usize,
    /// Lines shared by subjects for which there was no room.
    pub overflow_lines: usize,
    /// Operations that had to share a line.
    pub overflowed: u64,
    /// Grants that broke I1. Must be 0.
    pub violations: u64,
}

impl MemoryStore {
    /// A store of [`LINES_DEFAULT`] lines.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_capacity(LINES_DEFAULT, clock)
    }

    /// A store of at most this many lines, rounded up to a multiple of [`SHARDS`].
    pub fn with_capacity(lines: usize, clock: Arc<dyn Clock>) -> Self {
        let per_shard = lines.div_ceil(SHARDS).max(1);
        let hasher = RandomState::default();
        let shard = || Padded(Mutex::new(Shard::new(per_shard, hasher.clone())));
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: hasher.clone(),
            clock,
            capacity: per_shard * SHARDS,
            violations: AtomicU64::new(0),
            overflowing: AtomicBool::new(false),
            settings: settings::Kept::default(),
        }
    }

    /// How full it is.
    pub fn stats(&self) -> MemoryStats {
        let mut stats = MemoryStats { capacity: self.capacity, ..MemoryStats::default() };
        for index in 0..SHARDS {
            let shard = self.lock(index);
            stats.lines += shard.lines();
            stats.overflow_lines += shard.overflow_lines();
            stats.overflowed += shard.overflowed;
        }
        stats.violations = self.violations.load(Ordering::Relaxed);
        stats
    }

    fn apply_one(&self, operation: &Operation, now: Timestamp) -> Result<Outcome, StoreError> {
        let applied = match &*operation.charges {
            [charge] => self.apply_to_line(operation, charge, now)?,
            charges if charges.len() > tollway_core::bounds::CHARGES_PER_TAKE_MAX => {
                apply(operation, &mut [], now)
            }
            _ => self.apply_to_lines(operation, now)?,
        };
        self.count_violations(operation, &applied.outcome);
        Ok(applied.outcome)
    }

    /// The fast path, which decides nearly every take without an [`Operation`]: one policy without slots, one subject, no
    /// id, no wait. Where it does not apply, nothing has changed, and `apply` must be asked.
    ///
    /// The subject need not have been checked: one that is not valid is left to the slow path, which refuses it.
    #[inline(always)]
    pub fn decide_fast(&self, policy: &Policy, subject: &str, cost: &Cost) -> Option<FastDecision> {
        if policy.holds_slots() {
            return None;
        }
        self.decide_at_once(policy, subject, cost, NOBODY)
    }

    /// The same, and what every limit shows afterwards, one after the other.
    #[inline]
    pub fn decide_and_read(
        &self,
        policy: &Policy,
        subject: &str,
        cost: &Cost,
        see: impl FnMut(Reading),
    ) -> Option<FastDecision> {
        let hash = entries::hash(&self.hasher, policy.key(), subject);
        let now = self.clock.now();
        let mut shard = self.lock(shard_of(hash));
        match shard.own_soon(hash, policy, subject)? {
            Found::Packed(packed) => {
                let decided = packed.decide_fast(policy, cost, now)?;
                packed.reading(policy, now).into_iter().for_each(see);
                Some(decided)
            }
            Found::Many(packed, key) => {
                let decided = packed.decide_fast(key, policy, cost, now)?;
                packed.readings(policy, now).for_each(see);
                Some(decided)
            }
            Found::Whole(_) => None,
        }
    }

    /// Hashes the subject, reads the clock and locks its shard once, whether or not the subject is known.
    #[inline(always)]
    fn decide_at_once(
        &self,
        policy: &Policy,
        subject: &str,
        cost: &Cost,
        permit: PermitId,
    ) -> Option<FastDecision> {
        // In this order: the clock is read while the subject comes from memory.
        let hash = entries::hash(&self.hasher, policy.key(), subject);
        let now = self.clock.now();
        let mut shard = self.lock(shard_of(hash));
        match shard.own_soon(hash, policy, subject) {
            Some(Found::Packed(packed)) => packed.decide_fast(policy, cost, now),
            Some(Found::Many(packed, key)) => packed.decide_fast(key, policy, cost, now),
            Some(Found::Whole(line)) => self.decide_whole(policy, cost, line, permit, now),
            None => self.decide_new(shard, hash, policy, subject, (cost, permit, now)),
        }
    }

    fn decide_whole(
        &self,
        policy: &Policy,
        cost: &Cost,
        line: &mut Account,
        permit: PermitId,
        now: Timestamp,
    ) -> Option<FastDecision> {
        let (decided, over) = decide_fast(policy, cost, line, permit, now)?;
        if over {
            self.raise_alarm(&[policy]);
        }
        Some(decided)
    }

    /// A subject that the first look did not find: new, shared with others, or further away in the table.
    #[inline(never)]
    fn decide_new(
        &self,
        mut shard: MutexGuard<'_, Shard>,
        hash: u64,
        policy: &Policy,
        subject: &str,
        (cost, permit, now): (&Cost, PermitId, Timestamp),
    ) -> Option<FastDecision> {
        let subject = Subject::new(subject).ok()?;
        let key = Key { hash, policy, subject: &subject };
        if shard.own(hash, policy, subject.as_str()).is_none() {
            shard.make_room(now).ok()?;
        }
        let (mut line, origin) = shard.load(key, now);
        let expires = line.expires;
        let decided = self.decide_whole(policy, cost, &mut line, permit, now)?;
        // A denial changes nothing, except that a line whose rate was lowered lives longer.
        if matches!(decided, FastDecision::Granted { .. }) || line.expires != expires {
            let own = shard.save(key, line, origin);
            drop(shard);
            self.warn_unless(own);
        }
        Some(decided)
    }

    /// One line.
    fn apply_to_line(
        &self,
        operation: &Operation,
        charge: &Charge,
        now: Timestamp,
    ) -> Result<Applied, StoreError> {
        let key = self.key(charge);
        let mut shard = self.lock(shard_of(key.hash));
        if shard.own(key.hash, key.policy, key.subject.as_str()).is_none() {
            shard.make_room(now)?;
        }
        let (mut line, origin) = shard.load(key, now);
        let applied = apply(operation, std::slice::from_mut(&mut line), now);
        if applied.changed {
            let own = shard.save(key, line, origin);
            drop(shard);
            self.warn_unless(own);
        }
        Ok(applied)
    }

    /// Several lines: all their shards are locked, always in the same order, before any of them is looked at.
    fn apply_to_lines(&self, operation: &Operation, now: Timestamp) -> Result<Applied, StoreError> {
        let keys: SmallVec<[Key<'_>; 4]> = operation.charges.iter().map(|charge| self.key(charge)).collect();
        let mut shards = self.lock_all(&keys);
        // First all room is made, then all lines are loaded: making room may forget lines.
        shards.iter_mut().try_for_each(|(_, shard)| shard.make_room(now))?;
        let mut lines: SmallVec<[Account; 4]> = SmallVec::new();
        let mut origins: SmallVec<[Origin; 4]> = SmallVec::new();
        for key in &keys {
            let (line, origin) = shard_in(&mut shards, key.hash)?.load(*key, now);
            lines.push(line);
            origins.push(origin);
        }
        refuse_one_line_for_two(&mut shards, &keys, &origins)?;
        let applied = apply(operation, &mut lines, now);
        if !applied.changed {
            return Ok(applied);
        }
        for ((key, line), origin) in keys.iter().zip(lines).zip(origins) {
            self.warn_unless(shard_in(&mut shards, key.hash)?.save(*key, line, origin));
        }
        Ok(applied)
    }

    fn key<'a>(&self, charge: &'a Charge) -> Key<'a> {
        let hash = entries::hash(&self.hasher, charge.policy.key(), charge.subject.as_str());
        Key { hash, policy: &charge.policy, subject: &charge.subject }
    }

    /// Nothing in the engine panics while it holds a lock; if something did, the line is as it was left.
    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_all(&self, keys: &[Key<'_>]) -> LockedShards<'_> {
        let mut indices: SmallVec<[usize; 4]> = keys.iter().map(|key| shard_of(key.hash)).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().map(|index| (index, self.lock(index))).collect()
    }

    fn count_violations(&self, operation: &Operation, outcome: &Outcome) {
        if matches!(outcome, Outcome::Decided(decision) if decision.over) {
            let policies: Vec<&Policy> = operation.charges.iter().map(|charge| &*charge.policy).collect();
            self.raise_alarm(&policies);
        }
    }

    #[cold]
    fn raise_alarm(&self, policies: &[&Policy]) {
        self.violations.fetch_add(1, Ordering::Relaxed);
        let policies: Vec<&str> = policies.iter().map(|policy| policy.name().as_str()).collect();
        tracing::error!(?policies, invariant = Invariant::NeverOver.id(), "a grant exceeded its limit");
    }

    fn warn_unless(&self, own_line: bool) {
        if !own_line && !self.overflowing.swap(true, Ordering::Relaxed) {
            let capacity = self.capacity;
            tracing::warn!(
                capacity,
                "memory store is full of live lines: new subjects share lines from now on"
            );
        }
    }
}

impl Store for MemoryStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if batch.len() > OPERATIONS_PER_BATCH_MAX {
            return Answer::now(Err(too_many(batch.len())));
        }
        if let [Operation { charges, action: Action::Take(terms) }] = batch
            && let ([charge], None, false, Span::ZERO) =
                (&**charges, &terms.call, terms.readings, terms.max_wait)
            && let Some(decided) =
                self.decide_at_once(&charge.policy, charge.subject.as_str(), charge.cost(), terms.permit)
        {
            let decision = decided.in_full(terms.permit);
            return Answer::now(Ok(Outcomes::from_buf([Outcome::Decided(decision)])));
        }
        let now = self.clock.now();
        Answer::now(batch.iter().map(|operation| self.apply_one(operation, now)).collect::<StoreResult>())
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }
}

type LockedShards<'a> = SmallVec<[(usize, MutexGuard<'a, Shard>); 4]>;

fn shard_in<'s>(shards: &'s mut LockedShards<'_>, hash: u64) -> Result<&'s mut Shard, StoreError> {
    let index = shard_of(hash);
    let found = shards.iter_mut().find(|(locked, _)| *locked == index);
    found.map(|(_, shard)| &mut **shard).ok_or_else(full)
}

/// Once the store is full, two subjects of one take can come to share a line, and a line cannot be taken from twice at
/// once. Rather than count one of them only, the take fails; each of them by itself is served.
fn refuse_one_line_for_two(
    shards: &mut LockedShards<'_>,
    keys: &[Key<'_>],
    origins: &[Origin],
) -> Result<(), StoreError> {
    let mut shared: SmallVec<[(&str, u64, Subject); 4]> = SmallVec::new();
    for (key, origin) in keys.iter().zip(origins) {
        let Some((hash, slot)) = shard_in(shards, key.hash)?.shared_place(*key, *origin) else { continue };
        let place = (key.policy.name().as_str(), hash, slot);
        if shared.contains(&place) {
            let message =
                "the memory store is full and two subjects of this take share a line; take them apart"
                    .to_owned();
            return Err(StoreError { fault: Fault::Caller, retry: Retry::Useless, message });
        }
        shared.push(place);
    }
    Ok(())
}

/// The table uses the lowest and the highest bits of the hash; these are neither.
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

fn full() -> StoreError {
    let message = "the memory store is full, and so are its shared lines".to_owned();
    StoreError { fault: Fault::Store, retry: Retry::Safe, message }
}

fn too_many(count: usize) -> StoreError {
    let message = format!("{count} operations in one batch; at most {OPERATIONS_PER_BATCH_MAX} are allowed");
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tollway_core::{Action, Terms};
    use tollway_testkit::ManualClock;

    use super::*;

    /// I1: making room for one subject of a take must not let another's new line take the place of a shared one that
    /// counts for somebody else. It once did, and gave five of three.
    #[test]
    fn a_take_over_two_subjects_leaves_the_shared_lines_of_others_alone() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let store = MemoryStore::with_capacity(3 * SHARDS, clock.clone());
        let policy = Policy::new("api", ["3 / minute from first call"]).unwrap();
        let hash = |name: &str| entries::hash(&store.hasher, policy.key(), name);
        let slot = |name: &str| (hash(name) >> 40) % 16;
        let names: Vec<String> =
            (0..200_000).map(|n| format!("s{n}")).filter(|name| shard_of(hash(name)) == 7).collect();
        let (second, rest) = names.split_first().unwrap();
        let sharing = rest.iter().find(|name| slot(name) == slot(second)).unwrap();
        let others: Vec<&String> = rest.iter().filter(|name| slot(name) != slot(second)).collect();

        let permits = Cell::new(0u128);
        let policy = Arc::new(policy.clone());
        let take = |names: &[&str]| {
            permits.set(permits.get() + 1);
            let charge = |name: &&str| Charge::new(Arc::clone(&policy), Subject::new(name).unwrap());
            let action = Action::Take(Terms::now(PermitId(permits.get())));
            let operation = Operation { charges: names.iter().map(charge).collect(), action };
            let Answer::Now(Some(Ok(outcomes))) = store.apply(&[operation]) else { panic!("memory answers") };
            matches!(&outcomes[0], Outcome::Decided(decision) if decision.is_granted())
        };

        assert!(take(&[others[0]]) && take(&[others[1]]));
        clock.advance(Span::from_secs(5));
        assert!(take(&[second]));
        clock.advance(Span::from_secs(45));
        let before = (0..5).filter(|_| take(&[sharing])).count();
        clock.advance(Span::from_millis(10_500));
        assert!(take(&[others[2]]));
        clock.advance(Span::from_millis(9_500));
        take(&[others[3], second]);
        let after = (0..5).filter(|_| take(&[sharing])).count();
        assert_eq!((before, after), (3, 0), "20 seconds of one minute");
    }
}
