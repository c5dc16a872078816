//! One shard of the memory store: its accounts, and the shared ones for when it is full.

use foldhash::fast::RandomState;
use tollway_core::{Account, Policy, PolicyKey, Span, StoreError, Subject, Timestamp};

use super::entries::hash;
use super::table::{AccountRef, AccountTable};
use super::{OVERFLOW_ACCOUNTS, SHARDS, full};

/// How many buckets each new account sweeps while there is room.
const SWEEP_AHEAD: usize = 4;
/// How long an expired account is kept while there is room. A subject that returns often keeps its account, and a clock
/// that steps back a little still finds every account.
const GRACE: Span = Span::from_secs(3);
/// How many buckets it sweeps when there is no room.
const SWEEP_WHEN_FULL: usize = 64;
/// The most overflow accounts of one shard: those of 256 policies.
const OVERFLOW_ACCOUNTS_MAX: usize = OVERFLOW_ACCOUNTS / SHARDS * 256;

/// The key of an account, with its hash.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) hash: u64,
    pub(super) policy: &'a Policy,
    pub(super) subject: &'a Subject,
}

/// Where an account was loaded from, and so where it is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The subject's own account.
    Own,
    /// An account shared by subjects for which there was no room.
    Shared,
    /// A new account with room for it.
    New,
    /// A new account without room: it will be shared.
    NewShared,
}

/// The accounts of one shard.
#[repr(C)]
pub(super) struct Shard {
    own: AccountTable,
    overflow: AccountTable,
    hasher: RandomState,
    capacity: usize,
    /// How many operations used a shared account.
    pub(super) overflowed: u64,
}

impl Shard {
    pub(super) fn new(capacity: usize, hasher: RandomState) -> Self {
        let table = || AccountTable::new(hasher.clone());
        Self { own: table(), overflow: table(), hasher: hasher.clone(), capacity, overflowed: 0 }
    }

    pub(super) fn accounts(&self) -> usize {
        self.own.len()
    }

    pub(super) fn overflow_accounts(&self) -> usize {
        self.overflow.len()
    }

    /// The keys of the subjects' own accounts that have not expired.
    pub(super) fn live(&self, now: Timestamp) -> impl Iterator<Item = (&PolicyKey, &Subject)> {
        self.own.live(now)
    }

    /// The subject's own account, if the fast look-up finds it: nearly always.
    #[inline(always)]
    pub(super) fn own_fast(&mut self, hash: u64, policy: &Policy, subject: &str) -> Option<AccountRef<'_>> {
        self.own.find_fast(hash, policy.key(), subject)
    }

    /// The subject's own account.
    pub(super) fn own(&mut self, hash: u64, policy: &Policy, subject: &str) -> Option<AccountRef<'_>> {
        self.own.find(hash, policy.key(), subject)
    }

    /// The account of a subject and its origin.
    pub(super) fn load(&mut self, key: Key<'_>, now: Timestamp) -> (Account, Origin) {
        match self.own(key.hash, key.policy, key.subject.as_str()) {
            Some(found) => (found.to_account(), Origin::Own),
            None => self.load_shared_or_new(key, now),
        }
    }

    /// The same for a subject without an account of its own. A subject on a shared account stays there until that expires,
    /// even if there is room again: it may get less than its limit, never more.
    pub(super) fn load_shared_or_new(&mut self, key: Key<'_>, now: Timestamp) -> (Account, Origin) {
        let (hash, slot) = self.overflow_slot(key);
        let shares =
            self.overflow.expires(hash, key.policy.key(), slot.as_str()).is_some_and(|end| end > now);
        match self.overflow.find(hash, key.policy.key(), slot.as_str()) {
            Some(found) if shares => {
                let account = found.to_account();
                self.overflowed += 1;
                (account, Origin::Shared)
            }
            _ if self.own.len() < self.capacity => (Account::new(key.policy), Origin::New),
            _ => (Account::new(key.policy), Origin::NewShared),
        }
    }

    /// Makes room for a new account. Call it before loading: it may delete accounts.
    pub(super) fn make_room(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.own.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.own.len() < self.capacity || self.own.sweep(SWEEP_WHEN_FULL, now) {
            return Ok(());
        }
        self.overflow.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.overflow.len() >= OVERFLOW_ACCOUNTS_MAX && !self.overflow.sweep(SWEEP_WHEN_FULL, now) {
            return Err(full());
        }
        Ok(())
    }

    /// Saves an account to its origin. Returns whether it is the subject's own.
    pub(super) fn save(&mut self, key: Key<'_>, account: Account, origin: Origin) -> bool {
        let own = matches!(origin, Origin::Own | Origin::New);
        if own {
            self.own.put(key.hash, key.policy.key(), key.subject, account);
        } else {
            let (hash, slot) = self.overflow_slot(key);
            self.overflowed += u64::from(origin == Origin::NewShared);
            self.overflow.put(hash, key.policy.key(), &slot, account);
        }
        own
    }

    /// The key of the shared account, if `origin` is shared.
    pub(super) fn shared_place(&self, key: Key<'_>, origin: Origin) -> Option<(u64, Subject)> {
        matches!(origin, Origin::Shared | Origin::NewShared).then(|| self.overflow_slot(key))
    }

    /// The shared account of a key: its number in this shard, as a subject.
    fn overflow_slot(&self, key: Key<'_>) -> (u64, Subject) {
        let number = (key.hash >> 40) % (OVERFLOW_ACCOUNTS / SHARDS) as u64;
        let subject = Subject::new(&number.to_string()).unwrap_or_default();
        (hash(&self.hasher, key.policy.key(), subject.as_str()), subject)
    }
}
