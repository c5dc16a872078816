//! What is kept by (policy, subject), each beside its key.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollway_core::{PolicyKey, Subject};

/// The hash of a key. Subjects are chosen by callers and so hashed with a secret seed; policies are not.
#[inline]
pub(super) fn hash(hasher: &RandomState, policy: &PolicyKey, subject: &str) -> u64 {
    hasher.hash_one(subject) ^ policy.hash()
}

/// A key, hashed once.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) hash: u64,
    pub(super) policy: &'a Arc<PolicyKey>,
    pub(super) subject: &'a str,
}

/// A key and what is kept for it: side by side and from the start of a cache line, so that a look-up waits for memory once.
#[repr(align(64))]
pub(super) struct Entry<K> {
    /// That of the policy under which it was last kept.
    policy: Arc<PolicyKey>,
    subject: Subject,
    kept: K,
}

impl<K> Entry<K> {
    #[inline]
    fn is(&self, key: Key<'_>) -> bool {
        same(self.subject.as_str().as_bytes(), key.subject.as_bytes())
            && (Arc::ptr_eq(&self.policy, key.policy) || self.is_of_same_name(key.policy))
    }

    /// After a reload a policy has another key, of the same name.
    #[cold]
    fn is_of_same_name(&self, policy: &PolicyKey) -> bool {
        *self.policy == *policy
    }

    fn hash(&self, hasher: &RandomState) -> u64 {
        hash(hasher, &self.policy, self.subject.as_str())
    }
}

/// Whether two subjects are one. Those of a usual length are compared in two words that overlap, which takes less than the
/// call that compares any others.
#[inline(always)]
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && match one.len() {
            8..=16 => ends(one).map(short) == ends(other).map(short),
            17..=32 => ends(one).map(long) == ends(other).map(long),
            _ => one == other,
        }
}

/// The first and the last so many bytes.
#[inline(always)]
fn ends<const N: usize>(bytes: &[u8]) -> Option<[&[u8; N]; 2]> {
    Some([bytes.first_chunk()?, bytes.last_chunk()?])
}

#[inline(always)]
fn short(ends: [&[u8; 8]; 2]) -> [u64; 2] {
    ends.map(|end| u64::from_ne_bytes(*end))
}

#[inline(always)]
fn long(ends: [&[u8; 16]; 2]) -> [u128; 2] {
    ends.map(|end| u128::from_ne_bytes(*end))
}

/// A table that can be walked.
pub(super) struct Entries<K>(HashTable<Entry<K>>);

impl<K> Entries<K> {
    pub(super) const fn new() -> Self {
        Self(HashTable::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn buckets(&self) -> usize {
        self.0.num_buckets()
    }

    pub(super) fn find(&self, key: Key<'_>) -> Option<&K> {
        self.0.find(key.hash, |entry| entry.is(key)).map(|entry| &entry.kept)
    }

    /// What is kept for a key, and the policy's key under which it was.
    #[inline(always)]
    pub(super) fn find_mut(&mut self, key: Key<'_>) -> Option<(&mut K, &PolicyKey)> {
        let Entry { policy, kept, .. } = self.0.find_mut(key.hash, |entry| entry.is(key))?;
        Some((kept, policy))
    }

    /// Keeps this for a key; returns what was there.
    pub(super) fn put(
        &mut self,
        key: Key<'_>,
        subject: &Subject,
        kept: K,
        hasher: &RandomState,
    ) -> Option<K> {
        let policy = Arc::clone(key.policy);
        if let Some(entry) = self.0.find_mut(key.hash, |entry| entry.is(key)) {
            entry.policy = policy;
            return Some(std::mem::replace(&mut entry.kept, kept));
        }
        let entry = Entry { policy, subject: subject.clone(), kept };
        self.0.insert_unique(key.hash, entry, |entry| entry.hash(hasher));
        None
    }

    pub(super) fn remove(&mut self, key: Key<'_>) -> Option<K> {
        let entry = self.0.find_entry(key.hash, |entry| entry.is(key)).ok()?;
        Some(entry.remove().0.kept)
    }

    /// Removes what is in this bucket if it is `old`.
    pub(super) fn remove_if(&mut self, bucket: usize, old: impl FnOnce(&K) -> bool) -> Option<K> {
        let entry = self.0.get_bucket_entry(bucket).ok()?;
        old(&entry.get().kept).then(|| entry.remove().0.kept)
    }

    /// After a flood has expired its memory is not kept for the next one.
    pub(super) fn give_memory_back(&mut self, hasher: &RandomState) {
        const WORTH_IT: usize = 4_096;
        let length = self.0.len();
        if self.0.capacity() > WORTH_IT && length < self.0.capacity() / 4 {
            self.0.shrink_to(length * 2, |entry| entry.hash(hasher));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_that_differ_in_one_byte_are_two() {
        for length in 0..40 {
            let one = vec![b'a'; length];
            assert!(same(&one, &one.clone()));
            assert!(!same(&one, &vec![b'a'; length + 1]));
            for place in 0..length {
                let mut other = one.clone();
                other[place] = b'b';
                assert!(!same(&one, &other), "{length} bytes, the one at {place}");
            }
        }
    }
}
