//! One part of the memory store: its lines, and the shared ones for when it is full.

use foldhash::fast::RandomState;
use tollway_core::{Account, Policy, Span, StoreError, Subject, Timestamp};

use super::entries::hash;
use super::table::{Found, LineTable};
use super::{OVERFLOW_LINES, SHARDS, full};

/// How many places a new line looks at to make room before there is need.
const SWEEP_AHEAD: usize = 4;
/// How long past its expiry a line is kept while there is room: subjects that come again and again are not forgotten and
/// found anew each time, and a clock that steps back a little finds every line still there.
const GRACE: Span = Span::from_secs(3);
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

/// Where a line came from, and so where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is the subject's own.
    Own,
    /// It is shared, by subjects for which there was no room.
    Shared,
    /// It is new, and there is room for it.
    New,
    /// It is new, and there is none: it will be shared.
    NewShared,
}

/// The lines whose hashes fall here.
#[repr(C)]
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

    /// The line of its own that a subject has, where it lies, if it is found at the first look: nearly all are.
    #[inline(always)]
    pub(super) fn own_soon(&mut self, hash: u64, policy: &Policy, subject: &str) -> Option<Found<'_>> {
        self.own.find_soon(hash, policy.key(), subject)
    }

    /// The line of its own that a subject has, where it lies.
    pub(super) fn own(&mut self, hash: u64, policy: &Policy, subject: &str) -> Option<Found<'_>> {
        self.own.find(hash, policy.key(), subject)
    }

    /// The line that a subject has, and where it came from. A subject that shares one stays with it until that is as good
    /// as new, even if there is room again: so it can only get less than its limit, never more.
    pub(super) fn load(&mut self, key: Key<'_>, now: Timestamp) -> (Account, Origin) {
        if let Some(found) = self.own(key.hash, key.policy, key.subject.as_str()) {
            return (found.to_line(), Origin::Own);
        }
        let (hash, slot) = self.overflow_slot(key);
        let shares =
            self.overflow.expires(hash, key.policy.key(), slot.as_str()).is_some_and(|end| end > now);
        match self.overflow.find(hash, key.policy.key(), slot.as_str()) {
            Some(found) if shares => {
                let line = found.to_line();
                self.overflowed += 1;
                (line, Origin::Shared)
            }
            _ if self.own.len() < self.capacity => (Account::new(key.policy), Origin::New),
            _ => (Account::new(key.policy), Origin::NewShared),
        }
    }

    /// Makes room for what may come. To be called before anything is loaded: it may forget lines.
    pub(super) fn make_room(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.own.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.own.len() < self.capacity || self.own.sweep(SWEEP_WHEN_FULL, now) {
            return Ok(());
        }
        self.overflow.sweep(SWEEP_AHEAD, now.minus(GRACE));
        if self.overflow.len() >= OVERFLOW_LINES_MAX && !self.overflow.sweep(SWEEP_WHEN_FULL, now) {
            return Err(full());
        }
        Ok(())
    }

    /// Keeps a line where it came from; a new one as the subject's own, or where there was no room as a shared one. Says
    /// whether the subject has one of its own.
    pub(super) fn save(&mut self, key: Key<'_>, line: Account, origin: Origin) -> bool {
        let own = matches!(origin, Origin::Own | Origin::New);
        if own {
            self.own.keep(key.hash, key.policy.key(), key.subject, line);
        } else {
            let (hash, slot) = self.overflow_slot(key);
            self.overflowed += u64::from(origin == Origin::NewShared);
            self.overflow.keep(hash, key.policy.key(), &slot, line);
        }
        own
    }

    /// The place that a line from `origin` has among the shared ones, if it has one.
    pub(super) fn shared_place(&self, key: Key<'_>, origin: Origin) -> Option<(u64, Subject)> {
        matches!(origin, Origin::Shared | Origin::NewShared).then(|| self.overflow_slot(key))
    }

    /// The shared line of a key: its number in this shard, written as a subject.
    fn overflow_slot(&self, key: Key<'_>) -> (u64, Subject) {
        let number = (key.hash >> 40) % (OVERFLOW_LINES / SHARDS) as u64;
        let subject = Subject::new(&number.to_string()).unwrap_or_default();
        (hash(&self.hasher, key.policy.key(), subject.as_str()), subject)
    }
}
