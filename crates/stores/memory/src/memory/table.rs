//! A table of accounts. Expired ones are swept a few buckets at a time.

use std::sync::Arc;

use foldhash::fast::RandomState;
use tollway_core::{Account, Packed, PackedMany, PolicyKey, Subject, Timestamp};

use super::entries::{Entries, Entry, Key};
use super::slab::Slab;

/// Accounts by (policy, subject). The fields of a look-up come first, on the cache line of the shard's lock.
///
/// An account is in one of the two tables, nearly always in the one for the number of its policy's limits.
#[repr(C)]
pub(super) struct AccountTable {
    one: Entries<EntryAccount>,
    many: Entries<PackedMany>,
    /// The accounts that do not fit an entry.
    slab: Slab<Account>,
    hasher: RandomState,
    /// The next bucket to sweep: of `one` or, after its last, of `many`.
    next_swept: usize,
}

const _: () = assert!(size_of::<Entry<EntryAccount>>() == 64, "one cache line");
const _: () = assert!(size_of::<Entry<PackedMany>>() == 128, "two cache lines");

/// An account of the table `one`: packed in its entry, or its position in the slab.
enum EntryAccount {
    /// Nearly all of them.
    Packed(Packed),
    /// It has a place in the queue, slots or remembered ids.
    InSlab(u32),
}

/// A reference to an account in the table.
pub(super) enum AccountRef<'a> {
    Packed(&'a mut Packed),
    Many(&'a mut PackedMany, &'a PolicyKey),
    Unpacked(&'a mut Account),
}

impl AccountRef<'_> {
    /// A copy of the account, unpacked.
    pub(super) fn to_account(&self) -> Account {
        match self {
            Self::Packed(packed) => packed.unpack(),
            Self::Many(packed, key) => packed.unpack(key),
            Self::Unpacked(account) => (*account).clone(),
        }
    }
}

impl AccountTable {
    pub(super) fn new(hasher: RandomState) -> Self {
        Self { one: Entries::new(), many: Entries::new(), slab: Slab::default(), hasher, next_swept: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.one.len() + self.many.len()
    }

    /// The account of a key, if it is in the table for its number of limits. It is in the other one if it is not packed,
    /// or if the number of limits has changed.
    #[inline(always)]
    pub(super) fn find_fast(
        &mut self,
        hash: u64,
        policy: &Arc<PolicyKey>,
        subject: &str,
    ) -> Option<AccountRef<'_>> {
        let key = Key { hash, policy, subject };
        if policy.limits() > 1 {
            find_many(&mut self.many, key)
        } else {
            find_one(&mut self.one, &mut self.slab, key)
        }
    }

    /// The account of a key, in either table.
    pub(super) fn find(
        &mut self,
        hash: u64,
        policy: &Arc<PolicyKey>,
        subject: &str,
    ) -> Option<AccountRef<'_>> {
        let Self { one, many, slab, .. } = self;
        let key = Key { hash, policy, subject };
        if policy.limits() > 1 {
            find_many(many, key).or_else(|| find_one(one, slab, key))
        } else {
            find_one(one, slab, key).or_else(|| find_many(many, key))
        }
    }

    /// When the account of a key expires.
    pub(super) fn expires(&self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Timestamp> {
        let key = Key { hash, policy, subject };
        let one = self.one.find(key).map(|stored| stored.expires(&self.slab));
        one.or_else(|| self.many.find(key).map(PackedMany::expires))
    }

    /// The keys of accounts that have not expired by `now`.
    pub(super) fn live(&self, now: Timestamp) -> impl Iterator<Item = (&PolicyKey, &Subject)> {
        let one = self.one.iter().filter(move |(_, _, stored)| stored.expires(&self.slab) > now);
        let many = self.many.iter().filter(move |(_, _, packed)| packed.expires() > now);
        let one = one.map(|(policy, subject, _)| (policy, subject));
        one.chain(many.map(|(policy, subject, _)| (policy, subject)))
    }

    /// Stores an account and removes the previous one.
    pub(super) fn put(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &Subject, account: Account) {
        let Self { one, many, slab, hasher, .. } = self;
        let key = Key { hash, policy, subject: subject.as_str() };
        let before = match (Packed::pack(&account), PackedMany::pack(&account, policy)) {
            (None, Some(packed)) => {
                many.put(key, subject, packed, hasher);
                one.remove(key)
            }
            (packed, _) => {
                let stored =
                    packed.map_or_else(|| EntryAccount::InSlab(slab.insert(account)), EntryAccount::Packed);
                many.remove(key);
                one.put(key, subject, stored, hasher)
            }
        };
        before.into_iter().for_each(|stored| stored.free(slab));
    }

    /// Sweeps the next `steps` buckets: deletes accounts that expired by `then`. Returns whether it deleted any.
    pub(super) fn sweep(&mut self, steps: usize, then: Timestamp) -> bool {
        let before = self.len();
        let buckets = self.one.buckets() + self.many.buckets();
        for _ in 0..steps.min(buckets) {
            self.next_swept = if self.next_swept < buckets { self.next_swept } else { 0 };
            self.delete_expired(self.next_swept, then);
            self.next_swept += 1;
        }
        self.one.shrink_if_sparse(&self.hasher);
        self.many.shrink_if_sparse(&self.hasher);
        self.len() < before
    }

    fn delete_expired(&mut self, bucket: usize, then: Timestamp) {
        let Self { one, many, slab, .. } = self;
        match bucket.checked_sub(one.buckets()) {
            None => {
                let expired = one.remove_if(bucket, |stored| stored.expires(slab) <= then);
                expired.into_iter().for_each(|stored| stored.free(slab));
            }
            Some(bucket) => drop(many.remove_if(bucket, |packed| packed.expires() <= then)),
        }
    }
}

#[inline(always)]
fn find_one<'a>(
    one: &'a mut Entries<EntryAccount>,
    slab: &'a mut Slab<Account>,
    key: Key<'_>,
) -> Option<AccountRef<'a>> {
    match one.find_mut(key)?.0 {
        EntryAccount::Packed(packed) => Some(AccountRef::Packed(packed)),
        EntryAccount::InSlab(place) => slab.get_mut(*place).map(AccountRef::Unpacked),
    }
}

#[inline(always)]
fn find_many<'a>(many: &'a mut Entries<PackedMany>, key: Key<'_>) -> Option<AccountRef<'a>> {
    many.find_mut(key).map(|(packed, policy)| AccountRef::Many(packed, policy))
}

impl EntryAccount {
    fn free(self, slab: &mut Slab<Account>) {
        if let Self::InSlab(place) = self {
            slab.remove(place);
        }
    }

    fn expires(&self, slab: &Slab<Account>) -> Timestamp {
        match self {
            Self::Packed(packed) => packed.expires(),
            Self::InSlab(place) => slab.get(*place).map_or(Timestamp::EPOCH, |account| account.expires),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollway_core::Policy;

    use super::*;

    /// A config reload may change the number of limits: the account is still found, and stored once.
    #[test]
    fn account_moves_with_the_number_of_limits() {
        let (one, two) = (["5 / minute"], ["5 / minute", "90 / hour"]);
        let (one, two) = (Policy::new("api", one).unwrap(), Policy::new("api", two).unwrap());
        let (hash, subject) = (7, Subject::new("ann").unwrap());
        let mut table = AccountTable::new(RandomState::default());
        for policy in [&one, &two, &one] {
            table.put(hash, policy.key(), &subject, Account::new(policy));
            assert_eq!(table.len(), 1);
            for asked in [&one, &two] {
                let found = table.find(hash, asked.key(), "ann").unwrap().to_account();
                assert_eq!(found.meters.len(), policy.limits().len());
                assert!(table.expires(hash, asked.key(), "ann").is_some());
            }
        }
    }

    #[test]
    fn expired_accounts_of_both_tables_are_swept() {
        let (one, two) = (["5 / minute"], ["5 / minute", "90 / hour"]);
        let policies = [Policy::new("one", one).unwrap(), Policy::new("two", two).unwrap()];
        let subject = Subject::new("ann").unwrap();
        let hasher = RandomState::default();
        let mut table = AccountTable::new(hasher.clone());
        for policy in &policies {
            let hash = super::super::entries::hash(&hasher, policy.key(), "ann");
            table.put(hash, policy.key(), &subject, Account::new(policy));
        }
        assert!(table.sweep(64, Timestamp::from_secs(1)));
        assert_eq!(table.len(), 0);
    }
}
