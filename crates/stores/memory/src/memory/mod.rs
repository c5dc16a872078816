//! The memory store: accounts in this process, sharded, bounded and swept when they expire.

mod entries;
mod fast_path;
mod kept_denial;
mod settings;
mod shard;
mod slab;
mod table;

use std::sync::Arc;

use foldhash::fast::RandomState;
pub use kept_denial::KeptDenial;
use shard::{Key, Origin, Shard};
use smallvec::SmallVec;
use tollway_core::bounds::OPERATIONS_PER_BATCH_MAX;
use tollway_core::{
    Account, AccountKey, AccountList, AccountListAnswer, Action, Answer, Applied, Charge, Clock, Fault,
    Invariant, Name, Operation, Outcome, Outcomes, Policy, PolicyKey, Retry, Settings, Store, StoreError,
    StoreResult, Subject, Timestamp, apply,
};

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// The number of shards, each with its own lock.
pub const SHARDS: usize = 64;

/// The default number of accounts of a store.
pub const ACCOUNTS_DEFAULT: usize = 1_000_000;

/// How many accounts the new subjects of one policy share while the store is full.
pub const OVERFLOW_ACCOUNTS: usize = 1_024;

/// A store that keeps accounts in this process.
///
/// Memory is bounded. With a subject of up to 24 bytes, an account with one limit takes less than 200 bytes, one with two
/// to six limits less than 400, one with seven to sixteen less than 800. An account that does not fit its entry (slots, ids,
/// a place in the queue) takes less than 400 bytes plus 48 per limit, besides its ids and slots. Only expired accounts are deleted. While the store is
/// full, new subjects share 1,024 accounts per policy: a flood of subjects neither resets a denied one nor locks new ones
/// out.
///
/// Ids and slots are bounded per account, not per store. An account remembers at most 1,024 ids and as many refunds (up to
/// 640 KiB with ids of 128 bytes) and at most 10,000 slots per limit (up to 700 KiB). That is up to 640 bytes for each take
/// with an id in the last ten minutes, and 72 for each slot in use. If untrusted callers choose ids or subjects, keep
/// `lines` low, or use a store outside this process.
///
/// ```
/// use std::sync::Arc;
/// use tollway_memory::{MemoryStore, SystemClock};
///
/// let store = MemoryStore::new(Arc::new(SystemClock::new()));
/// assert_eq!(store.stats().accounts, 0);
/// ```
pub struct MemoryStore {
    shards: Box<[Padded]>,
    hasher: RandomState,
    clock: Arc<dyn Clock>,
    capacity: usize,
    /// Grants that exceeded a limit. Must stay 0.
    violations: AtomicU64,
    overflowing: AtomicBool,
    settings: settings::SharedSettings,
}

/// Keeps the locks of neighbouring shards on separate cache lines.
#[repr(align(128))]
struct Padded {
    shard: Mutex<Shard>,
    changes: Changes,
}

/// How often an operation of the slow path changed an account of a shard: it may have given units back. Written under the
/// shard's lock, and on a cache line of its own, because kept denials read it without.
#[repr(align(64))]
#[derive(Default)]
struct Changes(AtomicU64);

/// How full a memory store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// The accounts in the store.
    pub accounts: usize,
    /// The most accounts it keeps.
    pub capacity: usize,
    /// The accounts shared by subjects for which there was no room.
    pub overflow_accounts: usize,
    /// Operations on a shared account.
    pub overflowed: u64,
    /// Grants that exceeded a limit. Must be 0.
    pub violations: u64,
}

impl MemoryStore {
    /// A store of [`ACCOUNTS_DEFAULT`] accounts.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_capacity(ACCOUNTS_DEFAULT, clock)
    }

    /// A store of at most this many accounts, rounded up to a multiple of [`SHARDS`].
    pub fn with_capacity(accounts: usize, clock: Arc<dyn Clock>) -> Self {
        let per_shard = accounts.div_ceil(SHARDS).max(1);
        let hasher = RandomState::default();
        let shard = || Padded {
            shard: Mutex::new(Shard::new(per_shard, hasher.clone())),
            changes: Changes::default(),
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: hasher.clone(),
            clock,
            capacity: per_shard * SHARDS,
            violations: AtomicU64::new(0),
            overflowing: AtomicBool::new(false),
            settings: settings::SharedSettings::default(),
        }
    }

    /// How full it is.
    pub fn stats(&self) -> MemoryStats {
        let mut stats = MemoryStats { capacity: self.capacity, ..MemoryStats::default() };
        for index in 0..SHARDS {
            let shard = self.lock(index);
            stats.accounts += shard.accounts();
            stats.overflow_accounts += shard.overflow_accounts();
            stats.overflowed += shard.overflowed;
        }
        stats.violations = self.violations.load(Ordering::Relaxed);
        stats
    }

    /// The subjects with an account of their own. Locks one shard at a time, so takes go on meanwhile.
    fn list(&self, policy: Option<&Name>, at_most: usize) -> AccountList {
        let now = self.clock.now();
        let keys = (0..SHARDS).flat_map(|index| {
            let shard = self.lock(index);
            let live = shard.live(now).filter(|(key, _)| policy.is_none_or(|policy| key.name() == policy));
            let key = |(key, subject): (&PolicyKey, &Subject)| AccountKey {
                policy: key.name().clone(),
                subject: subject.clone(),
            };
            // One more than is listed says that the list is not complete.
            live.map(key).take(at_most.saturating_add(1)).collect::<Vec<_>>()
        });
        AccountList::of(keys, at_most)
    }

    fn apply_one(&self, operation: &Operation, now: Timestamp) -> Result<Outcome, StoreError> {
        let applied = match &*operation.charges {
            [charge] => self.apply_to_account(operation, charge, now)?,
            charges if charges.len() > tollway_core::bounds::CHARGES_PER_TAKE_MAX => {
                apply(operation, &mut [], now)
            }
            _ => self.apply_to_accounts(operation, now)?,
        };
        self.count_violations(operation, &applied.outcome);
        Ok(applied.outcome)
    }

    /// Applies an operation to one account.
    fn apply_to_account(
        &self,
        operation: &Operation,
        charge: &Charge,
        now: Timestamp,
    ) -> Result<Applied, StoreError> {
        let key = self.key(charge);
        let mut shard = self.lock(shard_of(key.hash));
        let own = shard.own(key.hash, key.policy, key.subject.as_str()).map(|found| found.to_account());
        let (mut account, origin) = match own {
            Some(account) => (account, Origin::Own),
            None => {
                shard.make_room(now)?;
                shard.load_shared_or_new(key, now)
            }
        };
        let applied = apply(operation, std::slice::from_mut(&mut account), now);
        if applied.changed {
            let own = shard.save(key, account, origin);
            self.count_change(key.hash);
            drop(shard);
            self.warn_if_shared(own);
        }
        Ok(applied)
    }

    /// Applies an operation to several accounts. Locks all their shards first, always in the same order.
    fn apply_to_accounts(&self, operation: &Operation, now: Timestamp) -> Result<Applied, StoreError> {
        let keys: SmallVec<[Key<'_>; 4]> = operation.charges.iter().map(|charge| self.key(charge)).collect();
        let mut shards = self.lock_all(keys.iter().map(|key| key.hash));
        // Makes room before loading: making room may delete accounts.
        shards.iter_mut().try_for_each(|(_, shard)| shard.make_room(now))?;
        let mut accounts: SmallVec<[Account; 4]> = SmallVec::new();
        let mut origins: SmallVec<[Origin; 4]> = SmallVec::new();
        for key in &keys {
            let (account, origin) = shard_in(&mut shards, key.hash)?.load(*key, now);
            accounts.push(account);
            origins.push(origin);
        }
        refuse_two_charges_on_one_account(&mut shards, &keys, &origins)?;
        let applied = apply(operation, &mut accounts, now);
        if !applied.changed {
            return Ok(applied);
        }
        for ((key, account), origin) in keys.iter().zip(accounts).zip(origins) {
            self.count_change(key.hash);
            self.warn_if_shared(shard_in(&mut shards, key.hash)?.save(*key, account, origin));
        }
        Ok(applied)
    }

    fn key<'a>(&self, charge: &'a Charge) -> Key<'a> {
        let hash = entries::hash(&self.hasher, charge.policy.key(), charge.subject.as_str());
        Key { hash, policy: &charge.policy, subject: &charge.subject }
    }

    #[inline(always)]
    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        crate::backoff::lock(&self.shards[index].shard)
    }

    /// Call it under the shard's lock.
    fn count_change(&self, hash: u64) {
        self.shards[shard_of(hash)].changes.0.fetch_add(1, Ordering::Release);
    }

    fn lock_all(&self, hashes: impl Iterator<Item = u64>) -> LockedShards<'_> {
        let mut indices: SmallVec<[usize; 4]> = hashes.map(shard_of).collect();
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

    fn warn_if_shared(&self, is_own: bool) {
        if !is_own && !self.overflowing.swap(true, Ordering::Relaxed) {
            let capacity = self.capacity;
            tracing::warn!(capacity, "the memory store is full: new subjects share accounts from now on");
        }
    }
}

impl Store for MemoryStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if batch.len() > OPERATIONS_PER_BATCH_MAX {
            return Answer::now(Err(too_many(batch.len())));
        }
        if let [Operation { charges, action: Action::Take(terms) }] = batch
            && let Some(decided) = self.take_fast(charges, terms)
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

    fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Option<AccountListAnswer> {
        Some(Box::pin(std::future::ready(Ok(self.list(policy, at_most)))))
    }
}

type LockedShards<'a> = SmallVec<[(usize, MutexGuard<'a, Shard>); 4]>;

fn shard_in<'s>(shards: &'s mut LockedShards<'_>, hash: u64) -> Result<&'s mut Shard, StoreError> {
    let index = shard_of(hash);
    let found = shards.iter_mut().find(|(locked, _)| *locked == index);
    found.map(|(_, shard)| &mut **shard).ok_or_else(full)
}

/// In a full store, two subjects of one take can share an account, and one operation cannot debit an account twice. The
/// take fails instead of counting only one of them; each subject alone still works.
fn refuse_two_charges_on_one_account(
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
                "the memory store is full and two subjects of this take share an account; take for each separately"
                    .to_owned();
            return Err(StoreError { fault: Fault::Caller, retry: Retry::Useless, message });
        }
        shared.push(place);
    }
    Ok(())
}

/// Uses the middle bits of the hash: the table uses the lowest and the highest.
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

fn full() -> StoreError {
    let message = "the memory store is full, and so are its shared accounts".to_owned();
    StoreError { fault: Fault::Store, retry: Retry::Safe, message }
}

fn too_many(count: usize) -> StoreError {
    let message = format!("{count} operations in one batch; at most {OPERATIONS_PER_BATCH_MAX} are allowed");
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}

#[cfg(test)]
mod tests;
