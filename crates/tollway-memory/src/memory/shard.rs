//! One part of the memory store: its lines, and the shared ones for when it is full.

use foldhash::fast::RandomState;
use tollway_core::{Line, Policy, Span, StoreError, Subject, Timestamp};

use super::table::{Found, LineTable, hash};
use super::{OVERFLOW_LINES, SHARDS, full};

/// How many places a new line looks at to make room before there is need.
const SWEEP_AHEAD: usize = 4;
/// How long past its expiry a line is kept while there is room: subjects that come again and again are not forgotten and
/// found anew each time, and a clock that steps back a little finds every line still there.
const GRACE: Span = Span::from_secs(1);
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

    /// The line of its own that a subject has, where it lies.
    #[inline]
    pub(super) fn own(&mut self, hash: u64, policy: &Policy, subject: &str) -> Option<Found<'_>> {
        self.own.find(hash, policy.key(), subject)
    }

    /// The line that a subject has, its own or a shared one. A subject that shares one stays with it until that is as
    /// good as new, even if there is room again: so it can only get less than its limit, never more.
    pub(super) fn load(&mut self, key: Key<'_>, now: Timestamp) -> Option<Line> {
        match self.own(key.hash, key.policy, key.subject.as_str()) {
            Some(found) => Some(found.to_line()),
            None => self.load_shared(key, now),
        }
    }

    fn load_shared(&mut self, key: Key<'_>, now: Timestamp) -> Option<Line> {
        if self.overflow.len() == 0 {
            return None;
        }
        let (hash, slot) = self.overflow_slot(key);
        let policy = key.policy.key();
        if self.overflow.expires(hash, policy, slot.as_str())? <= now {
            self.overflow.remove(hash, policy, slot.as_str());
            return None;
        }
        self.overflowed += 1;
        self.overflow.find(hash, policy, slot.as_str()).map(|found| found.to_line())
    }

    /// The shared line that a subject has, or would have to make do with.
    pub(super) fn would_share(&mut self, key: Key<'_>, now: Timestamp) -> Option<(u64, Subject)> {
        if self.own(key.hash, key.policy, key.subject.as_str()).is_some() {
            return None;
        }
        let full = self.own.len() >= self.capacity && !self.own.sweep(SWEEP_WHEN_FULL, now);
        let slot = self.overflow_slot(key);
        let shares =
            self.overflow.expires(slot.0, key.policy.key(), slot.1.as_str()).is_some_and(|end| end > now);
        (full || shares).then_some(slot)
    }

    /// Keeps a line that was loaded or is new: where it was, or as the subject's own if there is room, else as the shared
    /// one of its slot. Says whether the subject has one of its own.
    pub(super) fn save(&mut self, key: Key<'_>, line: Line, now: Timestamp) -> Result<bool, StoreError> {
        let policy = key.policy.key();
        if self.own(key.hash, key.policy, key.subject.as_str()).is_some() {
            self.own.keep(key.hash, policy, key.subject, line);
            return Ok(true);
        }
        let (slot_hash, slot) = self.overflow_slot(key);
        if self.overflow.len() > 0 && self.overflow.find(slot_hash, policy, slot.as_str()).is_some() {
            self.overflow.keep(slot_hash, policy, &slot, line);
            return Ok(false);
        }
        self.own.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.own.len() < self.capacity || self.own.sweep(SWEEP_WHEN_FULL, now) {
            self.own.keep(key.hash, policy, key.subject, line);
            return Ok(true);
        }
        self.overflow.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.overflow.len() >= OVERFLOW_LINES_MAX && !self.overflow.sweep(SWEEP_WHEN_FULL, now) {
            return Err(full());
        }
        self.overflow.keep(slot_hash, policy, &slot, line);
        self.overflowed += 1;
        Ok(false)
    }

    /// The shared line of a key: its number in this shard, written as a subject.
    fn overflow_slot(&self, key: Key<'_>) -> (u64, Subject) {
        let number = (key.hash >> 40) % (OVERFLOW_LINES / SHARDS) as u64;
        let subject = Subject::new(&number.to_string()).unwrap_or_default();
        (hash(&self.hasher, key.policy.key(), subject.as_str()), subject)
    }
}
