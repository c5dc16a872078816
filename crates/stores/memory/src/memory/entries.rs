//! A hash table by (policy, subject) with the value beside its key.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollway_core::{PolicyKey, Subject};

/// The hash of a key. Callers choose subjects, so they are hashed with a secret seed; policies are not.
#[inline]
pub(super) fn hash(hasher: &RandomState, policy: &PolicyKey, subject: &str) -> u64 {
    hasher.hash_one(subject) ^ policy.hash()
}

/// A key with its hash.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) hash: u64,
    pub(super) policy: &'a Arc<PolicyKey>,
    pub(super) subject: &'a str,
}

/// A key and its value, aligned to a cache line so that a look-up waits for memory once.
#[repr(align(64))]
pub(super) struct Entry<K> {
    /// The key of the policy under which the value was last stored.
    policy: Arc<PolicyKey>,
    subject: Subject,
    value: K,
}

impl<K> Entry<K> {
    #[inline]
    fn is(&self, key: Key<'_>) -> bool {
        same(self.subject.as_str().as_bytes(), key.subject.as_bytes())
            && (Arc::ptr_eq(&self.policy, key.policy) || self.is_of_same_name(key.policy))
    }

    /// After a config reload a policy has a new key with the same name.
    #[cold]
    fn is_of_same_name(&self, policy: &PolicyKey) -> bool {
        *self.policy == *policy
    }

    fn hash(&self, hasher: &RandomState) -> u64 {
        hash(hasher, &self.policy, self.subject.as_str())
    }
}

/// Whether two subjects are equal. Subjects of common lengths are compared as two overlapping words, which is faster than
/// a call of `memcmp`.
#[inline(always)]
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && match one.len() {
            8..=16 => ends(one).map(short) == ends(other).map(short),
            17..=32 => ends(one).map(long) == ends(other).map(long),
            _ => one == other,
        }
}

/// The first and the last `N` bytes.
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

/// A table that can be swept bucket by bucket.
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

    /// Every key with its value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PolicyKey, &Subject, &K)> {
        self.0.iter().map(|entry| (&*entry.policy, &entry.subject, &entry.value))
    }

    pub(super) fn find(&self, key: Key<'_>) -> Option<&K> {
        self.0.find(key.hash, |entry| entry.is(key)).map(|entry| &entry.value)
    }

    /// The value of a key, and the policy's key under which it was stored.
    #[inline(always)]
    pub(super) fn find_mut(&mut self, key: Key<'_>) -> Option<(&mut K, &PolicyKey)> {
        let Entry { policy, value, .. } = self.0.find_mut(key.hash, |entry| entry.is(key))?;
        Some((value, policy))
    }

    /// Stores a value and returns the previous one.
    pub(super) fn put(
        &mut self,
        key: Key<'_>,
        subject: &Subject,
        value: K,
        hasher: &RandomState,
    ) -> Option<K> {
        let policy = Arc::clone(key.policy);
        if let Some(entry) = self.0.find_mut(key.hash, |entry| entry.is(key)) {
            entry.policy = policy;
            return Some(std::mem::replace(&mut entry.value, value));
        }
        let entry = Entry { policy, subject: subject.clone(), value };
        self.0.insert_unique(key.hash, entry, |entry| entry.hash(hasher));
        None
    }

    pub(super) fn remove(&mut self, key: Key<'_>) -> Option<K> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.0.find_entry(key.hash, |entry| entry.is(key)).ok()?;
        Some(entry.remove().0.value)
    }

    /// Removes the entry of this bucket if its value is `old`.
    pub(super) fn remove_if(&mut self, bucket: usize, old: impl FnOnce(&K) -> bool) -> Option<K> {
        let entry = self.0.get_bucket_entry(bucket).ok()?;
        old(&entry.get().value).then(|| entry.remove().0.value)
    }

    /// Shrinks a table that is mostly empty, such as after a flood of subjects has expired.
    pub(super) fn shrink_if_sparse(&mut self, hasher: &RandomState) {
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
    fn subjects_that_differ_in_one_byte_are_not_equal() {
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
