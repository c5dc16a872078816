//! A table of accounts. Expired ones are swept a few buckets at a time.

use std::sync::Arc;

use foldhash::fast::RandomState;
use tollway_core::{Account, Packed, PackedMany, PackedSix, PackedSixteen, PolicyKey, Subject, Timestamp};

use super::entries::{Entries, Entry, Key};
use super::slab::Slab;

/// Accounts by (policy, subject). The fields of a look-up come first, on the cache line of the shard's lock.
///
/// An account is in one of the three tables, nearly always in the one for the number of its policy's limits.
#[repr(C)]
pub(super) struct AccountTable {
    one: Entries<EntryAccount>,
    six: Entries<PackedSix>,
    sixteen: Entries<PackedSixteen>,
    /// The accounts that do not fit an entry.
    slab: Slab<Account>,
    hasher: RandomState,
    /// The next bucket to sweep: of `one`, after its last of `six`, then of `sixteen`.
    next_swept: usize,
}

const _: () = assert!(size_of::<Entry<EntryAccount>>() == 64, "one cache line");
const _: () = assert!(size_of::<Entry<PackedSix>>() == 128, "two cache lines");
const _: () = assert!(size_of::<Entry<PackedSixteen>>() == 320, "five cache lines");

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
    Six(&'a mut PackedSix, &'a PolicyKey),
    Sixteen(&'a mut PackedSixteen, &'a PolicyKey),
    Unpacked(&'a mut Account),
}

impl AccountRef<'_> {
    /// A copy of the account, unpacked.
    pub(super) fn to_account(&self) -> Account {
        match self {
            Self::Packed(packed) => packed.unpack(),
            Self::Six(packed, key) => packed.unpack(key),
            Self::Sixteen(packed, key) => packed.unpack(key),
            Self::Unpacked(account) => (*account).clone(),
        }
    }
}

impl AccountTable {
    pub(super) fn new(hasher: RandomState) -> Self {
        let (one, six, sixteen) = (Entries::new(), Entries::new(), Entries::new());
        Self { one, six, sixteen, slab: Slab::default(), hasher, next_swept: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.one.len() + self.six.len() + self.sixteen.len()
    }

    /// The account of a key, if it is in the table for its number of limits. It is in another one if it is not packed, or if
    /// the number of limits has changed.
    #[inline(always)]
    pub(super) fn find_fast(
        &mut self,
        hash: u64,
        policy: &Arc<PolicyKey>,
        subject: &str,
    ) -> Option<AccountRef<'_>> {
        let key = Key { hash, policy, subject };
        match policy.limits() {
            0..=1 => find_one(&mut self.one, &mut self.slab, key),
            2..=PackedSix::METERS => find_six(&mut self.six, key),
            _ => find_sixteen(&mut self.sixteen, key),
        }
    }

    /// The account of a key, in any table.
    pub(super) fn find(
        &mut self,
        hash: u64,
        policy: &Arc<PolicyKey>,
        subject: &str,
    ) -> Option<AccountRef<'_>> {
        let Self { one, six, sixteen, slab, .. } = self;
        let key = Key { hash, policy, subject };
        match policy.limits() {
            0..=1 => {
                find_one(one, slab, key).or_else(|| find_six(six, key)).or_else(|| find_sixteen(sixteen, key))
            }
            2..=PackedSix::METERS => {
                find_six(six, key).or_else(|| find_one(one, slab, key)).or_else(|| find_sixteen(sixteen, key))
            }
            _ => {
                find_sixteen(sixteen, key).or_else(|| find_one(one, slab, key)).or_else(|| find_six(six, key))
            }
        }
    }

    /// When the account of a key expires.
    pub(super) fn expires(&self, hash: u64, policy: &Arc<PolicyKey>, subject: &str) -> Option<Timestamp> {
        let key = Key { hash, policy, subject };
        let one = self.one.find(key).map(|stored| stored.expires(&self.slab));
        one.or_else(|| self.six.find(key).map(PackedMany::expires))
            .or_else(|| self.sixteen.find(key).map(PackedMany::expires))
    }

    /// The keys of accounts that have not expired by `now`.
    pub(super) fn live(&self, now: Timestamp) -> impl Iterator<Item = (&PolicyKey, &Subject)> {
        let one = self.one.iter().filter(move |(_, _, stored)| stored.expires(&self.slab) > now);
        let one = one.map(|(policy, subject, _)| (policy, subject));
        one.chain(self.six.live(now)).chain(self.sixteen.live(now))
    }

    /// Stores an account and removes the previous one.
    pub(super) fn put(&mut self, hash: u64, policy: &Arc<PolicyKey>, subject: &Subject, account: Account) {
        let Self { one, six, sixteen, slab, hasher, .. } = self;
        let key = Key { hash, policy, subject: subject.as_str() };
        let meters = account.meters.len();
        let before = if meters > PackedSix::METERS
            && let Some(packed) = PackedSixteen::pack(&account, policy)
        {
            sixteen.put(key, subject, packed, hasher);
            six.remove(key);
            one.remove(key)
        } else if meters > 1
            && let Some(packed) = PackedSix::pack(&account, policy)
        {
            six.put(key, subject, packed, hasher);
            sixteen.remove(key);
            one.remove(key)
        } else {
            let packed = Packed::pack(&account);
            let stored =
                packed.map_or_else(|| EntryAccount::InSlab(slab.insert(account)), EntryAccount::Packed);
            six.remove(key);
            sixteen.remove(key);
            one.put(key, subject, stored, hasher)
        };
        before.into_iter().for_each(|stored| stored.free(slab));
    }

    /// Sweeps the next `steps` buckets: deletes accounts that expired by `then`. Returns whether it deleted any.
    pub(super) fn sweep(&mut self, steps: usize, then: Timestamp) -> bool {
        let before = self.len();
        let buckets = self.one.buckets() + self.six.buckets() + self.sixteen.buckets();
        for _ in 0..steps.min(buckets) {
            self.next_swept = if self.next_swept < buckets { self.next_swept } else { 0 };
            self.delete_expired(self.next_swept, then);
            self.next_swept += 1;
        }
        self.one.shrink_if_sparse(&self.hasher);
        self.six.shrink_if_sparse(&self.hasher);
        self.sixteen.shrink_if_sparse(&self.hasher);
        self.len() < before
    }

    fn delete_expired(&mut self, bucket: usize, then: Timestamp) {
        let Self { one, six, sixteen, slab, .. } = self;
        let Some(bucket) = bucket.checked_sub(one.buckets()) else {
            let expired = one.remove_if(bucket, |stored| stored.expires(slab) <= then);
            return expired.into_iter().for_each(|stored| stored.free(slab));
        };
        match bucket.checked_sub(six.buckets()) {
            None => drop(six.remove_if(bucket, |packed| packed.expires() <= then)),
            Some(bucket) => drop(sixteen.remove_if(bucket, |packed| packed.expires() <= then)),
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
fn find_six<'a>(six: &'a mut Entries<PackedSix>, key: Key<'_>) -> Option<AccountRef<'a>> {
    six.find_mut(key).map(|(packed, policy)| AccountRef::Six(packed, policy))
}

#[inline(always)]
fn find_sixteen<'a>(sixteen: &'a mut Entries<PackedSixteen>, key: Key<'_>) -> Option<AccountRef<'a>> {
    sixteen.find_mut(key).map(|(packed, policy)| AccountRef::Sixteen(packed, policy))
}

impl<const METERS: usize> Entries<PackedMany<METERS>> {
    /// The keys of accounts that have not expired by `now`.
    fn live(&self, now: Timestamp) -> impl Iterator<Item = (&PolicyKey, &Subject)> {
        let live = self.iter().filter(move |(_, _, packed)| packed.expires() > now);
        live.map(|(policy, subject, _)| (policy, subject))
    }
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

    const LIMITS: [&str; 7] =
        ["5 / minute", "9 / hour", "a: 9 / day", "b: 9 / day", "c: 9 / day", "d: 9 / day", "e: 9 / day"];

    fn policy(name: &str, limits: usize) -> Policy {
        Policy::new(name, LIMITS.into_iter().take(limits)).unwrap()
    }

    /// A config reload may change the number of limits: the account is still found, and stored once.
    #[test]
    fn account_moves_with_the_number_of_limits() {
        let policies = [1, 2, 7].map(|limits| policy("api", limits));
        let (hash, subject) = (7, Subject::new("ann").unwrap());
        let mut table = AccountTable::new(RandomState::default());
        for stored in [0, 1, 2, 0, 2, 1, 0] {
            let stored = &policies[stored];
            table.put(hash, stored.key(), &subject, Account::new(stored));
            assert_eq!(table.len(), 1);
            for asked in &policies {
                let found = table.find(hash, asked.key(), "ann").unwrap().to_account();
                assert_eq!(found.meters.len(), stored.limits().len());
                assert!(table.expires(hash, asked.key(), "ann").is_some());
            }
            assert_eq!(table.live(Timestamp::EPOCH).count(), 0, "a fresh account has expired");
        }
    }

    #[test]
    fn expired_accounts_of_all_tables_are_swept() {
        let policies = [policy("one", 1), policy("two", 2), policy("seven", 7)];
        let subject = Subject::new("ann").unwrap();
        let hasher = RandomState::default();
        let mut table = AccountTable::new(hasher.clone());
        for policy in &policies {
            let hash = super::super::entries::hash(&hasher, policy.key(), "ann");
            table.put(hash, policy.key(), &subject, Account::new(policy));
        }
        assert_eq!(table.len(), 3);
        assert!(table.sweep(64, Timestamp::from_secs(1)));
        assert_eq!(table.len(), 0);
    }
}
