//! One part of the memory store: its lines, and the shared ones for when it is full.

use foldhash::fast::RandomState;
use tollway_core::{Line, Policy, Span, StoreError, Subject, Timestamp};

use super::table::{LineTable, hash};
use super::{OVERFLOW_LINES, SHARDS, full};

/// How many places a new line looks at to make room before there is need.
const SWEEP_AHEAD: usize = 4;
/// How long past its expiry a line is kept while there is room: subjects that come again and again are not forgotten and
/// found anew each time, and a clock that steps back a little finds every line still there.
const GRACE: Span = Span::from_secs(10);
/// How many it looks at when there is none left.
const SWEEP_WHEN_FULL: usize = 64;
/// The most overflow lines of one shard: those of 256 policies.
const OVERFLOW_LINES_MAX: usize = OVERFLOW_LINES / SHARDS * 256;

/// Which line is meant; hashed once.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) hash: u64,
    pub(super) policy: &'a Policy,
    pub(super) subject: &'a Subject,
}

/// The lines whose hashes fall here.
pub(super) struct Shard {
    own: LineTable,
    overflow: LineTable,
    hasher: RandomState,
    capacity: usize,
    /// How many takes had to share a line.
    pub(super) overflowed: u64,
}

impl Shard {
    pub(super) fn new(capacity: usize, hasher: RandomState) -> Self {
        let table = || LineTable::new(hasher.clone());
        Self { own: table(), overflow: table(), hasher: hasher.clone(), capacity, overflowed: 0 }
    }

    pub(super) fn lines(&self) -> usize {
        self.own.len()
    }

    pub(super) fn overflow_lines(&self) -> usize {
        self.overflow.len()
    }

    /// The line of its own that a subject has, if any.
    #[inline]
    pub(super) fn own(&mut self, key: Key<'_>) -> Option<&mut Line> {
        self.own.find_mut(key.hash, key.policy.key(), key.subject)
    }

    /// The line that a subject has, its own or a shared one. A subject that shares one stays with it until that is as
    /// good as new, even if there is room again: so it can only get less than its limit, never more.
    pub(super) fn find(&mut self, key: Key<'_>, now: Timestamp) -> Option<&mut Line> {
        if self.overflow.len() > 0 && self.own(key).is_none() {
            return self.shared(key, now);
        }
        self.own(key)
    }

    #[cold]
    fn shared(&mut self, key: Key<'_>, now: Timestamp) -> Option<&mut Line> {
        let (hash, slot) = self.overflow_slot(key);
        let policy = key.policy.key();
        let live = self.overflow.find_mut(hash, policy, &slot).is_some_and(|line| line.expires > now);
        if !live {
            self.overflow.remove(hash, policy, &slot);
            return None;
        }
        self.overflowed += 1;
        self.overflow.find_mut(hash, policy, &slot)
    }

    /// Keeps a new line: as the subject's own if there is room, else as the shared one of its slot. Says whether it had
    /// room.
    pub(super) fn insert(&mut self, key: Key<'_>, line: Line, now: Timestamp) -> Result<bool, StoreError> {
        self.own.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.own.len() < self.capacity || self.own.sweep(SWEEP_WHEN_FULL, now) {
            self.own.insert(key.hash, key.policy.key(), key.subject, line);
            return Ok(true);
        }
        self.insert_shared(key, line, now)?;
        Ok(false)
    }

    #[cold]
    fn insert_shared(&mut self, key: Key<'_>, line: Line, now: Timestamp) -> Result<(), StoreError> {
        self.overflow.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.overflow.len() >= OVERFLOW_LINES_MAX && !self.overflow.sweep(SWEEP_WHEN_FULL, now) {
            return Err(full());
        }
        let (hash, slot) = self.overflow_slot(key);
        self.overflow.insert(hash, key.policy.key(), &slot, line);
        self.overflowed += 1;
        Ok(())
    }

    /// The shared line of a key: its number in this shard, written as a subject.
    fn overflow_slot(&self, key: Key<'_>) -> (u64, Subject) {
        let number = (key.hash >> 40) % (OVERFLOW_LINES / SHARDS) as u64;
        let subject = Subject::new(&number.to_string()).unwrap_or_default();
        (hash(&self.hasher, key.policy.key(), &subject), subject)
    }
}
