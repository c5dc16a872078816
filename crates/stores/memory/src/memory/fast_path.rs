//! The fast path of takes: decided in place, without an [`Operation`](tollway_core::Operation). Where it does not apply it
//! has changed nothing, and the caller uses `apply`.

use smallvec::SmallVec;
use tollway_core::{
    Account, CallId, Charge, Cost, FastCharge, FastDecision, PermitId, Policy, Reading, Span, Subject, Terms,
    Timestamp, decide_fast, decide_fast_once,
};

use super::shard::{Key, Origin, Shard};
use super::table::AccountRef;
use super::{KeptDenial, LockedShards, MemoryStore, entries, shard_in, shard_of};
use crate::sync::Ordering;

/// The permit of a take without slots: only slots store their permit.
const NO_PERMIT: PermitId = PermitId(0);

/// The most policies of one take here: each is a call on the stack that keeps its account, to undo the debit.
const CHARGES_MAX: usize = 4;

impl MemoryStore {
    /// The fast path of the most common take: one policy without slots, one subject, no id, no wait. If it returns `None`,
    /// nothing has changed, and the caller must use `apply`.
    ///
    /// The subject need not be valid: the slow path refuses an invalid one.
    #[inline(always)]
    pub fn decide_fast(&self, policy: &Policy, subject: &str, cost: Option<&Cost>) -> Option<FastDecision> {
        if policy.holds_slots() {
            return None;
        }
        let hash = entries::hash(&self.hasher, policy.key(), subject);
        let now = self.clock.now();
        self.decide_now(hash, policy, subject, (cost.unwrap_or(policy.default_cost()), NO_PERMIT, now))
    }

    /// The same for the policy's default cost, for a caller with a place for its last denial under this policy: a subject
    /// that is denied again takes no lock.
    #[inline(always)]
    pub fn decide_fast_kept(
        &self,
        policy: &Policy,
        subject: &str,
        denial: &KeptDenial,
    ) -> Option<FastDecision> {
        if policy.holds_slots() {
            return None;
        }
        let hash = entries::hash(&self.hasher, policy.key(), subject);
        let now = self.clock.now();
        let terms = (policy.default_cost(), NO_PERMIT, now);
        if !denial.is_of(hash) {
            let decided = self.decide_now(hash, policy, subject, terms);
            denial.note(hash, decided.as_ref());
            return decided;
        }
        // Read before the decision: a change after it makes the denial invalid, a change before it only seems to.
        let changes = self.shards[shard_of(hash)].changes.0.load(Ordering::Acquire);
        if let Some(denied) = denial.repeat(subject, now, changes) {
            return Some(denied);
        }
        let decided = self.decide_now(hash, policy, subject, terms);
        denial.keep(subject, decided.as_ref(), changes);
        decided
    }

    /// The same; `see` gets the reading of every limit afterwards, in order.
    #[inline]
    pub fn decide_and_read(
        &self,
        policy: &Policy,
        subject: &str,
        cost: &Cost,
        see: impl FnMut(Reading),
    ) -> Option<FastDecision> {
        let hash = entries::hash(&self.hasher, policy.key(), subject);
        let now = self.clock.now();
        let mut shard = self.lock(shard_of(hash));
        match shard.own_fast(hash, policy, subject)? {
            AccountRef::Packed(packed) => {
                let decided = packed.decide_fast(policy, cost, now)?;
                packed.reading(policy, now).into_iter().for_each(see);
                Some(decided)
            }
            AccountRef::Six(packed, key) => {
                let decided = packed.decide_fast(key, policy, cost, now)?;
                packed.readings(policy, now).for_each(see);
                Some(decided)
            }
            AccountRef::Sixteen(packed, key) => {
                let decided = packed.decide_fast(key, policy, cost, now)?;
                packed.readings(policy, now).for_each(see);
                Some(decided)
            }
            AccountRef::Unpacked(_) => None,
        }
    }

    /// The same for a take with an id, which has its permit already: the account remembers both.
    pub fn decide_fast_once(
        &self,
        charge: FastCharge<'_>,
        call: &CallId,
        permit: PermitId,
    ) -> Option<FastDecision> {
        let FastCharge { policy, subject, .. } = charge;
        if policy.holds_slots() {
            return None;
        }
        let hash = entries::hash(&self.hasher, policy.key(), subject);
        let now = self.clock.now();
        let mut shard = self.lock(shard_of(hash));
        let decide = |account: &mut Account| decide_fast_once(charge, account, call, permit, now);
        match shard.own(hash, policy, subject) {
            Some(AccountRef::Unpacked(account)) => self.checked(policy, decide(account)),
            found => {
                let own = found.map(|found| found.to_account());
                self.decide_saved(&mut shard, hash, own, (policy, subject, now), decide)
            }
        }
    }

    /// The same for a take under several policies, all or nothing; only a grant.
    pub fn grant_fast_together(&self, charges: &[FastCharge<'_>]) -> Option<FastDecision> {
        let mut hashes: SmallVec<[u64; CHARGES_MAX]> = SmallVec::new();
        for FastCharge { policy, subject, .. } in charges {
            let hash = entries::hash(&self.hasher, policy.key(), subject);
            // Perhaps one account twice, which the slow path refuses.
            if policy.holds_slots() || hashes.contains(&hash) || hashes.len() >= CHARGES_MAX {
                return None;
            }
            hashes.push(hash);
        }
        let mut shards = self.lock_all(hashes.iter().copied());
        // Read under the locks, so that no account has been changed later than this.
        let now = self.clock.now();
        let good_until = grant_all(&mut shards, charges, &hashes, now)?;
        Some(FastDecision::Granted { now, good_until })
    }

    /// The fast path of an operation, if it has one.
    pub(super) fn take_fast(&self, charges: &[Charge], terms: &Terms) -> Option<FastDecision> {
        if terms.readings || terms.max_wait != Span::ZERO {
            return None;
        }
        match (charges, &terms.call) {
            ([charge], None) => {
                let key = self.key(charge);
                let terms = (charge.cost(), terms.permit, self.clock.now());
                self.decide_now(key.hash, key.policy, key.subject.as_str(), terms)
            }
            ([charge], Some(call)) => self.decide_fast_once(charge.fast(), call, terms.permit),
            (charges, None) => {
                let charges: SmallVec<[FastCharge<'_>; CHARGES_MAX]> =
                    charges.iter().map(Charge::fast).collect();
                self.grant_fast_together(&charges)
            }
            (_, Some(_)) => None,
        }
    }

    /// Locks the subject's shard once, for known and new subjects. The caller hashes the subject first and reads the clock
    /// next, while the subject is loaded from memory.
    #[inline(always)]
    fn decide_now(
        &self,
        hash: u64,
        policy: &Policy,
        subject: &str,
        (cost, permit, now): (&Cost, PermitId, Timestamp),
    ) -> Option<FastDecision> {
        let mut shard = self.lock(shard_of(hash));
        match shard.own_fast(hash, policy, subject) {
            Some(AccountRef::Packed(packed)) => packed.decide_fast(policy, cost, now),
            Some(AccountRef::Six(packed, key)) => packed.decide_fast(key, policy, cost, now),
            Some(AccountRef::Sixteen(packed, key)) => packed.decide_fast(key, policy, cost, now),
            Some(AccountRef::Unpacked(account)) => {
                self.checked(policy, decide_fast(policy, cost, account, permit, now))
            }
            None => self.decide_elsewhere(&mut shard, hash, policy, subject, (cost, permit, now)),
        }
    }

    /// A subject that the fast look-up did not find: new, on a shared account, or in another table.
    #[inline(never)]
    fn decide_elsewhere(
        &self,
        shard: &mut Shard,
        hash: u64,
        policy: &Policy,
        subject: &str,
        (cost, permit, now): (&Cost, PermitId, Timestamp),
    ) -> Option<FastDecision> {
        let decide = |account: &mut Account| decide_fast(policy, cost, account, permit, now);
        match shard.own(hash, policy, subject) {
            Some(AccountRef::Unpacked(account)) if !account.packs() => self.checked(policy, decide(account)),
            found => {
                let own = found.map(|found| found.to_account());
                self.decide_saved(shard, hash, own, (policy, subject, now), decide)
            }
        }
    }

    /// Decides on a copy of the subject's own account, or of a shared one if there is no room, and saves it: packed, if it
    /// fits.
    fn decide_saved(
        &self,
        shard: &mut Shard,
        hash: u64,
        own: Option<Account>,
        (policy, subject, now): (&Policy, &str, Timestamp),
        decide: impl FnOnce(&mut Account) -> Option<(FastDecision, bool)>,
    ) -> Option<FastDecision> {
        let subject = Subject::new(subject).ok()?;
        let key = Key { hash, policy, subject: &subject };
        let (mut account, origin) = match own {
            Some(account) => (account, Origin::Own),
            None => {
                shard.make_room(now).ok()?;
                shard.load_shared_or_new(key, now)
            }
        };
        let expires = account.expires;
        let decided = self.checked(policy, decide(&mut account))?;
        // A denial changes nothing but the expiry of an account whose rate was lowered.
        if matches!(decided, FastDecision::Granted { .. }) || account.expires != expires {
            self.warn_if_shared(shard.save(key, account, origin));
        }
        Some(decided)
    }

    /// The decision. Raises the alarm if it exceeded a limit.
    #[inline]
    fn checked(&self, policy: &Policy, decided: Option<(FastDecision, bool)>) -> Option<FastDecision> {
        let (decided, over) = decided?;
        if over {
            self.raise_alarm(&[policy]);
        }
        Some(decided)
    }
}

/// Debits the account of the first charge and those of the others, and returns until when the call may begin. If one has no
/// room at this time, all are put back.
fn grant_all(
    shards: &mut LockedShards<'_>,
    charges: &[FastCharge<'_>],
    hashes: &[u64],
    now: Timestamp,
) -> Option<Timestamp> {
    let Some((charge, others)) = charges.split_first() else { return Some(Timestamp::MAX) };
    let (hash, other_hashes) = hashes.split_first()?;
    let FastCharge { policy, subject, cost } = *charge;
    // Debits one account, then the others, or puts it back.
    macro_rules! grant {
        ($packed:ident, $variant:pat => $again:ident, $decided:expr) => {{
            let before = *$packed;
            let FastDecision::Granted { good_until, .. } = $decided else { return None };
            let rest = grant_all(shards, others, other_hashes, now);
            if rest.is_none()
                && let Some($variant) = shard_in(shards, *hash).ok()?.own_fast(*hash, policy, subject)
            {
                *$again = before;
            }
            Some(good_until.min(rest?))
        }};
    }
    match shard_in(shards, *hash).ok()?.own_fast(*hash, policy, subject)? {
        AccountRef::Packed(packed) if packed.seen() <= now => {
            grant!(packed, AccountRef::Packed(again) => again, packed.decide_fast(policy, cost, now)?)
        }
        AccountRef::Six(packed, key) if packed.seen() <= now => {
            grant!(packed, AccountRef::Six(again, _) => again, packed.decide_fast(key, policy, cost, now)?)
        }
        AccountRef::Sixteen(packed, key) if packed.seen() <= now => {
            grant!(packed, AccountRef::Sixteen(again, _) => again, packed.decide_fast(key, policy, cost, now)?)
        }
        _ => None,
    }
}
