//! A table of lines that can be walked, so that expired ones are found a few at a time.

use std::sync::Arc;

use foldhash::fast::RandomState;
use tollway_core::{Account, Packed, PackedMany, PolicyKey, Subject, Timestamp};

use super::entries::{Entries, Entry, Key};
use super::slab::Slab;

/// Lines by (policy, subject). What a look-up needs comes first: there it shares a cache line with the shard's lock.
///
/// A subject has its line in one of the two tables: nearly always the one that the number of its policy's limits says.
#[repr(C)]
pub(super) struct LineTable {
    one: Entries<Kept>,
    many: Entries<PackedMany>,
    /// The lines that fit no entry.
    whole: Slab<Account>,
    hasher: RandomState,
    /// Where the search for expired lines goes on: a bucket of the one table or, after its last, of the other.
    hand: usize,
}

const _: () = assert!(size_of::<Entry<Kept>>() == 64, "one cache line");
const _: () = assert!(size_of::<Entry<PackedMany>>() == 128, "two side by side");

/// How a line is kept that is not one of several limits and nothing else.
enum Kept {
    /// In its entry: nearly all of them.
    Here(Packed),
    /// Elsewhere: it has a place in line, slots, remembered ids.
    Whole(u32),
}

/// A line where it lies.
pub(super) enum Found<'a> {
    Packed(&'a mut Packed),
    Many(&'a mut PackedMany, &'a PolicyKey),
    Whole(&'a mut Account),
}

impl Found<'_> {
    /// The line by itself.
    pub(super) fn to_line(&self) -> Account {
        match self {
            Self::Packed(packed) => packed.unpack(),
            Self::Many(packed, key) => packed.unpack(key),
            Self::Whole(line) => (*line).clone(),
        }
    }
}

impl LineTable {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self { one: Entries::new(), many: Entries::new(), whole: Slab::default(), hasher, hand: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.one.len() + self.many.len()
    }

    /// The line of a key, if it is where the number of limits says. Elsewhere it would wait or remember something, have more
    /// than is packed, or that number was another once.
    #[inline(always)]
    pub(super) fn find_soon(
        &mut self,
        hash: u64,
        policy: &Arc<PolicyKey>,
        subject: &str,
    ) -> Option<Found<'_>> {
        let key = Key { hash, policy, subject };
        if policy.limits() > 1 {
            find_many(&mut self.many, key)
        } else {
            find_one(&mut self.one, &mut self.whole, key)
        }
    }

    /// The line of a key, wherever it is.
    pub(super) fn find(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Found<'_>> {
        let Self { one, many, whole, .. } = self;
        let key = Key { hash, policy, subject };
        if policy.limits() > 1 {
            find_many(many, key).or_else(|| find_one(one, whole, key))
        } else {
            find_one(one, whole, key).or_else(|| find_many(many, key))
        }
    }

    /// When the line of a key expires.
    pub(super) fn expires(&self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Timestamp> {
        let key = Key { hash, policy, subject };
        let one = self.one.find(key).map(|kept| kept.expires(&self.whole));
        one.or_else(|| self.many.find(key).map(PackedMany::expires))
    }

    /// Keeps a line, in place of the one that was there, if any.
    pub(super) fn keep(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &Subject, line: Account) {
        let Self { one, many, whole, hasher, .. } = self;
        let key = Key { hash, policy, subject: subject.as_str() };
        let before = match (Packed::pack(&line), PackedMany::pack(&line, policy)) {
            (None, Some(packed)) => {
                many.put(key, subject, packed, hasher);
                one.remove(key)
            }
            (packed, _) => {
                let kept = packed.map_or_else(|| Kept::Whole(whole.insert(line)), Kept::Here);
                many.remove(key);
                one.put(key, subject, kept, hasher)
            }
        };
        before.into_iter().for_each(|kept| kept.forget(whole));
    }

    /// Looks at the next `steps` buckets and forgets lines that were as good as new at `then`; says whether it did.
    pub(super) fn sweep(&mut self, steps: usize, then: Timestamp) -> bool {
        let before = self.len();
        let buckets = self.one.buckets() + self.many.buckets();
        for _ in 0..steps.min(buckets) {
            self.hand = if self.hand < buckets { self.hand } else { 0 };
            self.forget_expired(self.hand, then);
            self.hand += 1;
        }
        self.one.give_memory_back(&self.hasher);
        self.many.give_memory_back(&self.hasher);
        self.len() < before
    }

    fn forget_expired(&mut self, bucket: usize, then: Timestamp) {
        let Self { one, many, whole, .. } = self;
        match bucket.checked_sub(one.buckets()) {
            None => {
                let expired = one.remove_if(bucket, |kept| kept.expires(whole) <= then);
                expired.into_iter().for_each(|kept| kept.forget(whole));
            }
            Some(bucket) => drop(many.remove_if(bucket, |packed| packed.expires() <= then)),
        }
    }
}

#[inline(always)]
fn find_one<'a>(one: &'a mut Entries<Kept>, whole: &'a mut Slab<Account>, key: Key<'_>) -> Option<Found<'a>> {
    match one.find_mut(key)?.0 {
        Kept::Here(packed) => Some(Found::Packed(packed)),
        Kept::Whole(place) => whole.get_mut(*place).map(Found::Whole),
    }
}

#[inline(always)]
fn find_many<'a>(many: &'a mut Entries<PackedMany>, key: Key<'_>) -> Option<Found<'a>> {
    many.find_mut(key).map(|(packed, policy)| Found::Many(packed, policy))
}

impl Kept {
    fn forget(self, whole: &mut Slab<Account>) {
        if let Self::Whole(place) = self {
            whole.remove(place);
        }
    }

    fn expires(&self, whole: &Slab<Account>) -> Timestamp {
        match self {
            Self::Here(packed) => packed.expires(),
            Self::Whole(place) => whole.get(*place).map_or(Timestamp::EPOCH, |line| line.expires),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::Policy;

    use super::*;

    /// A reload may give a policy more limits or fewer: its lines are found all the same, and each is kept once.
    #[test]
    fn a_line_moves_with_the_number_of_limits() {
        let (one, two) = (["5 / minute"], ["5 / minute", "90 / hour"]);
        let (one, two) = (Policy::new("api", one).unwrap(), Policy::new("api", two).unwrap());
        let (hash, subject) = (7, Subject::new("ann").unwrap());
        let mut table = LineTable::new(RandomState::default());
        for policy in [&one, &two, &one] {
            table.keep(hash, policy.key(), &subject, Account::new(policy));
            assert_eq!(table.len(), 1);
            for asked in [&one, &two] {
                let found = table.find(hash, asked.key(), "ann").unwrap().to_line();
                assert_eq!(found.meters.len(), policy.limits().len());
                assert!(table.expires(hash, asked.key(), "ann").is_some());
            }
        }
    }

    #[test]
    fn expired_lines_of_either_table_are_swept() {
        let (one, two) = (["5 / minute"], ["5 / minute", "90 / hour"]);
        let policies = [Policy::new("one", one).unwrap(), Policy::new("two", two).unwrap()];
        let subject = Subject::new("ann").unwrap();
        let hasher = RandomState::default();
        let mut table = LineTable::new(hasher.clone());
        for policy in &policies {
            let hash = super::super::entries::hash(&hasher, policy.key(), "ann");
            table.keep(hash, policy.key(), &subject, Account::new(policy));
        }
        assert!(table.sweep(64, Timestamp::from_secs(1)));
        assert_eq!(table.len(), 0);
    }
}
