//! A table of lines that can be walked, so that expired ones are found a few at a time.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollway_core::{Line, Packed, PackedMany, PolicyKey, Subject, Timestamp};

use super::slab::Slab;

/// Lines by (policy, subject). What a look-up needs comes first: there it shares a cache line with the shard's lock.
#[repr(C)]
pub(super) struct LineTable {
    entries: HashTable<Entry>,
    /// The lines that do not fit an entry.
    elsewhere: Elsewhere,
    hasher: RandomState,
    /// Where the search for expired lines goes on: a bucket of the table.
    hand: usize,
}

/// The lines that do not fit an entry, by their size.
#[derive(Default)]
#[repr(C)]
struct Elsewhere {
    many: Slab<PackedMany>,
    whole: Slab<Line>,
}

/// A key and its line: exactly one cache line, so that a look-up misses the cache once.
#[repr(align(64))]
struct Entry {
    /// That of the policy under which the line was last kept.
    policy: Arc<PolicyKey>,
    subject: Subject,
    kept: Kept,
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is one cache line");

/// How an entry keeps its line.
enum Kept {
    /// In itself: nearly all of them.
    Here(Packed),
    There(Place),
}

/// Where a line lies that does not fit its entry.
#[derive(Clone, Copy)]
enum Place {
    /// Among those of several limits.
    Many(u32),
    /// Among those with anything else: a place in line, slots, remembered ids.
    Whole(u32),
}

/// A line where it lies.
pub(super) enum Found<'a> {
    Packed(&'a mut Packed),
    Many(&'a mut PackedMany, &'a PolicyKey),
    Whole(&'a mut Line),
}

impl Found<'_> {
    /// The line by itself.
    pub(super) fn to_line(&self) -> Line {
        match self {
            Self::Packed(packed) => packed.unpack(),
            Self::Many(packed, key) => packed.unpack(key),
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
        self.subject.as_str() == subject
            && (Arc::ptr_eq(&self.policy, policy) || self.is_of_same_name(policy))
    }

    /// After a reload a policy has another key, of the same name.
    #[cold]
    fn is_of_same_name(&self, policy: &PolicyKey) -> bool {
        *self.policy == *policy
    }
}

impl LineTable {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self { hasher, entries: HashTable::new(), elsewhere: Elsewhere::default(), hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline(always)]
    pub(super) fn find(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Found<'_>> {
        let Entry { policy, kept, .. } = self.entries.find_mut(hash, |entry| entry.is(policy, subject))?;
        match kept {
            Kept::Here(packed) => Some(Found::Packed(packed)),
            Kept::There(place) => self.elsewhere.find(*place, policy),
        }
    }

    /// When the line of a key expires.
    pub(super) fn expires(&self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Timestamp> {
        self.entries
            .find(hash, |entry| entry.is(policy, subject))
            .map(|entry| entry.kept.expires(&self.elsewhere))
    }

    /// Keeps a line, in place of the one that was there, if any.
    pub(super) fn keep(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &Subject, line: Line) {
        let Self { hasher, entries, elsewhere, .. } = self;
        let kept = Kept::new(line, policy, elsewhere);
        if let Some(entry) = entries.find_mut(hash, |entry| entry.is(policy, subject.as_str())) {
            std::mem::replace(&mut entry.kept, kept).forget(elsewhere);
            entry.policy = Arc::clone(policy);
            return;
        }
        let entry = Entry { policy: Arc::clone(policy), subject: subject.clone(), kept };
        entries.insert_unique(hash, entry, |entry| self::hash(hasher, &entry.policy, entry.subject.as_str()));
    }

    /// Looks at the next `steps` buckets and forgets lines that were as good as new at `then`; says whether it did.
    pub(super) fn sweep(&mut self, steps: usize, then: Timestamp) -> bool {
        let before = self.entries.len();
        for _ in 0..steps.min(self.entries.num_buckets()) {
            self.hand = if self.hand < self.entries.num_buckets() { self.hand } else { 0 };
            if let Ok(entry) = self.entries.get_bucket_entry(self.hand)
                && entry.get().kept.expires(&self.elsewhere) <= then
            {
                entry.remove().0.kept.forget(&mut self.elsewhere);
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
    fn new(line: Line, key: &PolicyKey, elsewhere: &mut Elsewhere) -> Self {
        match Packed::pack(&line) {
            Some(packed) => Self::Here(packed),
            None => Self::There(elsewhere.insert(line, key)),
        }
    }

    fn forget(self, elsewhere: &mut Elsewhere) {
        if let Self::There(place) = self {
            elsewhere.remove(place);
        }
    }

    fn expires(&self, elsewhere: &Elsewhere) -> Timestamp {
        match self {
            Self::Here(packed) => packed.expires(),
            Self::There(place) => elsewhere.expires(*place).unwrap_or(Timestamp::EPOCH),
        }
    }
}

impl Elsewhere {
    fn insert(&mut self, line: Line, key: &PolicyKey) -> Place {
        match PackedMany::pack(&line, key) {
            Some(packed) => Place::Many(self.many.insert(packed)),
            None => Place::Whole(self.whole.insert(line)),
        }
    }

    #[inline(always)]
    fn find<'a>(&'a mut self, place: Place, key: &'a PolicyKey) -> Option<Found<'a>> {
        match place {
            Place::Many(position) => self.many.get_mut(position).map(|packed| Found::Many(packed, key)),
            Place::Whole(position) => self.whole.get_mut(position).map(Found::Whole),
        }
    }

    fn expires(&self, place: Place) -> Option<Timestamp> {
        match place {
            Place::Many(position) => self.many.get(position).map(PackedMany::expires),
            Place::Whole(position) => self.whole.get(position).map(|line| line.expires),
        }
    }

    fn remove(&mut self, place: Place) {
        match place {
            Place::Many(position) => self.many.remove(position),
            Place::Whole(position) => self.whole.remove(position),
        }
    }
}
