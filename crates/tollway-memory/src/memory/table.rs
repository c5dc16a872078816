//! A table of lines that can be walked, so that expired ones are found a few at a time.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollway_core::{Line, Packed, PolicyKey, Subject, Timestamp};

use super::slab::Slab;

/// Lines by (policy, subject).
pub(super) struct LineTable {
    hasher: RandomState,
    entries: HashTable<Entry>,
    /// The lines that do not fit an entry.
    slab: Slab,
    /// Where the search for expired lines goes on: a bucket of the table.
    hand: usize,
}

/// A key and its line: exactly one cache line, so that a look-up misses the cache once.
#[repr(align(64))]
struct Entry {
    policy: Arc<PolicyKey>,
    subject: Subject,
    kept: Kept,
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is one cache line");

/// How an entry keeps its line.
enum Kept {
    /// In itself: nearly all of them.
    Here(Packed),
    /// In the slab: several limits, a place in line, slots, remembered ids.
    There(u32),
}

/// A line where it lies.
pub(super) enum Found<'a> {
    Packed(&'a mut Packed),
    Whole(&'a mut Line),
}

impl Found<'_> {
    /// The line by itself.
    pub(super) fn to_line(&self) -> Line {
        match self {
            Self::Packed(packed) => packed.unpack(),
            Self::Whole(line) => (*line).clone(),
        }
    }
}

/// The hash of a key. Subjects are chosen by callers and so hashed with a secret seed; policies are not.
#[inline]
pub(super) fn hash(hasher: &RandomState, policy: &PolicyKey, subject: &str) -> u64 {
    hasher.hash_one(subject) ^ policy.hash()
}

impl Entry {
    #[inline]
    fn is(&self, policy: &Arc<PolicyKey>, subject: &str) -> bool {
        self.subject.as_str() == subject && (Arc::ptr_eq(&self.policy, policy) || self.policy == *policy)
    }
}

impl LineTable {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self { hasher, entries: HashTable::new(), slab: Slab::default(), hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn find(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Found<'_>> {
        match &mut self.entries.find_mut(hash, |entry| entry.is(policy, subject))?.kept {
            Kept::Here(packed) => Some(Found::Packed(packed)),
            Kept::There(position) => self.slab.get_mut(*position).map(Found::Whole),
        }
    }

    /// When the line of a key expires.
    pub(super) fn expires(&self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Timestamp> {
        self.entries.find(hash, |entry| entry.is(policy, subject)).map(|entry| entry.kept.expires(&self.slab))
    }

    /// Keeps a line, in place of the one that was there, if any.
    pub(super) fn keep(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &Subject, line: Line) {
        let Self { hasher, entries, slab, .. } = self;
        if let Some(entry) = entries.find_mut(hash, |entry| entry.is(policy, subject.as_str())) {
            entry.kept.replace(line, slab);
            return;
        }
        let kept = Kept::new(line, slab);
        let entry = Entry { policy: Arc::clone(policy), subject: subject.clone(), kept };
        entries.insert_unique(hash, entry, |entry| self::hash(hasher, &entry.policy, entry.subject.as_str()));
    }

    /// Looks at the next `steps` buckets and forgets lines that were as good as new at `then`; says whether it did.
    pub(super) fn sweep(&mut self, steps: usize, then: Timestamp) -> bool {
        let before = self.entries.len();
        for _ in 0..steps.min(self.entries.num_buckets()) {
            self.hand = if self.hand < self.entries.num_buckets() { self.hand } else { 0 };
            if let Ok(entry) = self.entries.get_bucket_entry(self.hand)
                && entry.get().kept.expires(&self.slab) <= then
            {
                entry.remove().0.kept.forget(&mut self.slab);
            }
            self.hand += 1;
        }
        self.give_memory_back();
        self.entries.len() < before
    }

    /// After a flood has expired its memory is not kept for the next one.
    fn give_memory_back(&mut self) {
        const WORTH_IT: usize = 4_096;
        let length = self.entries.len();
        if self.entries.capacity() > WORTH_IT && length < self.entries.capacity() / 4 {
            let Self { hasher, entries, .. } = self;
            entries.shrink_to(length * 2, |entry| self::hash(hasher, &entry.policy, entry.subject.as_str()));
        }
    }
}

impl Kept {
    fn new(line: Line, slab: &mut Slab) -> Self {
        match Packed::pack(&line) {
            Some(packed) => Self::Here(packed),
            None => Self::There(slab.insert(line)),
        }
    }

    fn replace(&mut self, line: Line, slab: &mut Slab) {
        std::mem::replace(self, Self::new(line, slab)).forget(slab);
    }

    fn forget(self, slab: &mut Slab) {
        if let Self::There(position) = self {
            slab.remove(position);
        }
    }

    fn expires(&self, slab: &Slab) -> Timestamp {
        match self {
            Self::Here(packed) => packed.expires(),
            Self::There(position) => slab.get(*position).map_or(Timestamp::EPOCH, |line| line.expires),
        }
    }
}
