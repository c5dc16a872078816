//! A table of lines that can be walked, so that expired ones are found a few at a time.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollway_core::{Line, PolicyKey, Subject, Timestamp};

/// Lines by (policy, subject). A line of one limit lies in the table itself, with its key: a look-up touches two or
/// three cache lines and follows no pointer.
pub(super) struct LineTable {
    hasher: RandomState,
    entries: HashTable<Entry>,
    /// Where the search for expired lines goes on: a bucket of the table.
    hand: usize,
}

struct Entry {
    policy: Arc<PolicyKey>,
    subject: Subject,
    line: Line,
}

/// The hash of a key. Subjects are chosen by callers and so hashed with a secret seed; policies are not.
#[inline]
pub(super) fn hash(hasher: &RandomState, policy: &PolicyKey, subject: &Subject) -> u64 {
    hasher.hash_one(subject.as_str()) ^ policy.hash()
}

impl Entry {
    #[inline]
    fn is(&self, policy: &Arc<PolicyKey>, subject: &Subject) -> bool {
        self.subject == *subject && (Arc::ptr_eq(&self.policy, policy) || self.policy == *policy)
    }
}

impl LineTable {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self { hasher, entries: HashTable::new(), hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn find_mut(
        &mut self,
        hash: u64,
        policy: &Arc<PolicyKey>,
        subject: &Subject,
    ) -> Option<&mut Line> {
        self.entries.find_mut(hash, |entry| entry.is(policy, subject)).map(|entry| &mut entry.line)
    }

    /// Adds a line that is not there yet.
    pub(super) fn insert(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &Subject, line: Line) {
        let entry = Entry { policy: Arc::clone(policy), subject: subject.clone(), line };
        let Self { hasher, entries, .. } = self;
        entries.insert_unique(hash, entry, |entry| self::hash(hasher, &entry.policy, &entry.subject));
    }

    pub(super) fn remove(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &Subject) {
        if let Ok(entry) = self.entries.find_entry(hash, |entry| entry.is(policy, subject)) {
            entry.remove();
        }
    }

    /// Looks at the next `steps` buckets and forgets lines that were as good as new at `then`; says whether it did.
    pub(super) fn sweep(&mut self, steps: usize, then: Timestamp) -> bool {
        let before = self.entries.len();
        for _ in 0..steps.min(self.entries.num_buckets()) {
            self.hand = if self.hand < self.entries.num_buckets() { self.hand } else { 0 };
            if let Ok(entry) = self.entries.get_bucket_entry(self.hand)
                && entry.get().line.expires <= then
            {
                entry.remove();
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
        if self.entries.capacity() > WORTH_IT && length < self.entries.capacity() / 8 {
            let Self { hasher, entries, .. } = self;
            entries.shrink_to(length * 2, |entry| self::hash(hasher, &entry.policy, &entry.subject));
        }
    }
}
