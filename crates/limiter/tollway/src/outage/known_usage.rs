//! What the store last said is left of each limit. A decision without the store grants a share of that, not of the whole
//! limit; under a policy that is open then, all of it.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tollway_core::{AccountKey, Charge, Cost, Denial, Limit, Reading, Span, Timestamp};

use crate::outage::local_share::Share;

/// When a take without any share is retried, if nothing is known of its account: a store that is back is found by then.
const NO_SHARE_RETRY: Span = Span::from_secs(1);

/// What the store last said of each account, up to a number of accounts.
pub(crate) struct KnownUsage {
    accounts_max: usize,
    accounts: Mutex<KnownAccounts>,
}

/// The accounts of which something is known, by key.
#[derive(Default)]
pub(crate) struct KnownAccounts {
    by_key: HashMap<AccountKey, KnownAccount>,
    /// No account expires earlier, so a full map has no room before.
    first_expiry: Timestamp,
}

#[derive(Debug)]
struct KnownAccount {
    /// When the store decided, by its own clock.
    decided_at: Timestamp,
    limits: SmallVec<[KnownLimit; 2]>,
}

/// What was left of one limit, in local time.
#[derive(Clone, Copy, Debug)]
struct KnownLimit {
    identity: u32,
    capacity: u64,
    refills: bool,
    left: u64,
    /// From when on that much is left. Before it, booked takes have everything.
    as_of: Timestamp,
    /// The knowledge ends here.
    resets_at: Timestamp,
    /// The same by the store's clock, which tells one window from the next.
    store_resets_at: Timestamp,
    /// What was granted without the store in this window, or is still owed to the store.
    spent: u64,
}

/// What the store answered about one charge.
pub(crate) struct StoreReading<'a> {
    pub(crate) charge: &'a Charge,
    pub(crate) readings: &'a [Reading],
    /// When the store decided, by its own clock.
    pub(crate) decided_at: Timestamp,
    /// What was granted without the store before, and is not debited there yet.
    pub(crate) owed: Option<&'a Cost>,
    /// How much of what is left may be granted without the store.
    pub(crate) share: Share,
}

impl KnownUsage {
    pub(crate) fn new(accounts_max: usize) -> Self {
        Self { accounts_max, accounts: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, KnownAccounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns what the store said. A full map learns of no further account until one of its own expires.
    pub(crate) fn learn(&self, known: &mut KnownAccounts, reading: &StoreReading<'_>, now: Timestamp) {
        let limits = reading.limits(now);
        let key = reading.charge.key();
        if let Some(account) = known.by_key.get_mut(&key) {
            account.update(limits, reading.decided_at, reading.share);
            known.first_expiry = known.first_expiry.min(account.expires());
        } else if !limits.is_empty() && known.has_room(self.accounts_max, now) {
            let account = KnownAccount { decided_at: reading.decided_at, limits };
            known.first_expiry = known.first_expiry.min(account.expires());
            known.by_key.insert(key, account);
        }
    }
}

impl StoreReading<'_> {
    /// The limits that reset at a known time. Slots do not: they are free as soon as a call ends.
    fn limits(&self, now: Timestamp) -> SmallVec<[KnownLimit; 2]> {
        let local = |at: Timestamp| now.plus(at.since(self.decided_at));
        let owed = |index: usize| {
            let amounts = self.owed.map(|owed| self.charge.policy.amounts(owed));
            amounts.and_then(|mut amounts| amounts.nth(index)).map_or(0, |(_, amount)| amount)
        };
        let limits = self.charge.policy.limits().iter().zip(self.readings).enumerate();
        let resetting = limits.filter(|(_, (limit, _))| !limit.has_slots());
        resetting
            .map(|(index, (limit, reading))| KnownLimit {
                identity: limit.identity(),
                capacity: reading.capacity,
                refills: limit.refills(),
                left: reading.remaining,
                as_of: local(reading.as_of),
                resets_at: local(reading.resets_at),
                store_resets_at: reading.resets_at,
                spent: owed(index),
            })
            .collect()
    }
}

impl KnownAccounts {
    fn has_room(&mut self, accounts_max: usize, now: Timestamp) -> bool {
        if self.by_key.len() < accounts_max {
            return true;
        }
        if now < self.first_expiry {
            return false;
        }
        self.by_key.retain(|_, account| account.expires() > now);
        let expiries = self.by_key.values().map(KnownAccount::expires);
        self.first_expiry = expiries.min().unwrap_or(Timestamp::MAX);
        self.by_key.len() < accounts_max
    }

    /// The denial of charges that do not fit in the share of what is left. Of several limits, the one with the longest
    /// wait.
    pub(crate) fn denial(
        &self,
        charges: &[Charge],
        limiters: Option<NonZeroU32>,
        now: Timestamp,
    ) -> Option<Denial> {
        let enforced = charges.iter().enumerate().filter(|(_, charge)| !charge.policy.shadow());
        let denials = enforced.flat_map(|(index, charge)| {
            self.denials_of(index, charge, Share::of_known(&charge.policy, limiters), now)
        });
        denials.max_by_key(|denial| denial.retry_at)
    }

    fn denials_of<'a>(
        &'a self,
        index: usize,
        charge: &'a Charge,
        share: Share,
        now: Timestamp,
    ) -> impl Iterator<Item = Denial> + 'a {
        let account = self.by_key.get(&charge.key());
        charge.amounts().enumerate().filter_map(move |(limit_index, (limit, amount))| {
            let known = account.and_then(|account| account.limit(limit));
            let retry_at = match share.of(limit.capacity()) {
                0 if amount > 0 => {
                    let reset = known.map(|known| known.resets_at).filter(|resets_at| *resets_at > now);
                    reset.unwrap_or(now.plus(NO_SHARE_RETRY))
                }
                // The local meter refuses an amount above the share of the whole limit.
                whole if amount > whole => return None,
                _ => known?.fits_at(amount, share, now),
            };
            (retry_at > now).then_some(Denial { retry_at, charge: index, limit: limit_index, held: false })
        })
    }

    /// Whether the store said what is left of each limit of an account in the windows that run now.
    pub(crate) fn knows(&self, charge: &Charge, now: Timestamp) -> bool {
        let account = self.by_key.get(&charge.key());
        let mut resetting = charge.policy.limits().iter().filter(|limit| !limit.has_slots());
        account.is_some_and(|account| {
            resetting.all(|limit| account.limit(limit).is_some_and(|known| known.resets_at > now))
        })
    }

    /// Counts a charge that was granted without the store.
    pub(crate) fn spend(&mut self, charge: &Charge) {
        let Some(account) = self.by_key.get_mut(&charge.key()) else { return };
        for (limit, amount) in charge.amounts() {
            let known = account.limits.iter_mut().find(|known| known.identity == limit.identity());
            if let Some(known) = known {
                known.spent = known.spent.saturating_add(amount);
            }
        }
    }
}

impl KnownAccount {
    /// Answers can overtake each other: an older one says nothing, and of equally old ones the lowest counts. Of a fixed share
    /// one window has one, however often the store fails.
    fn update(&mut self, mut limits: SmallVec<[KnownLimit; 2]>, decided_at: Timestamp, share: Share) {
        if decided_at < self.decided_at {
            return;
        }
        for limit in &mut limits {
            let same = |known: &&KnownLimit| {
                (known.identity, known.store_resets_at) == (limit.identity, limit.store_resets_at)
            };
            let Some(known) = self.limits.iter().find(same) else { continue };
            if decided_at == self.decided_at || !share.is_renewed_by_answers() {
                limit.spent = limit.spent.max(known.spent);
            }
            if decided_at == self.decided_at {
                limit.left = limit.left.min(known.left);
            }
        }
        *self = Self { decided_at, limits };
    }

    fn limit(&self, limit: &Limit) -> Option<&KnownLimit> {
        self.limits.iter().find(|known| known.identity == limit.identity())
    }

    fn expires(&self) -> Timestamp {
        self.limits.iter().map(|limit| limit.resets_at).max().unwrap_or_default()
    }
}

impl KnownLimit {
    /// What is left if no other process takes: it grows evenly where the limit refills.
    fn left_at(&self, now: Timestamp) -> u64 {
        if now < self.as_of {
            return 0;
        }
        if !self.refills {
            return self.left;
        }
        let missing = self.capacity.saturating_sub(self.left);
        let (elapsed, whole) = (now.since(self.as_of), self.resets_at.since(self.as_of));
        let grown = u128::from(missing).saturating_mul(elapsed.as_micros().into());
        let grown = grown.checked_div(whole.as_micros().into()).unwrap_or(missing.into());
        self.left.saturating_add(u64::try_from(grown).unwrap_or(missing).min(missing))
    }

    /// The share of what is left, at least 1 if anything is left, without what is spent.
    fn room_at(&self, share: Share, now: Timestamp) -> u64 {
        let left = self.left_at(now);
        share.of(left).min(left).saturating_sub(self.spent)
    }

    /// When the amount fits: now, or later but not after the reset.
    fn fits_at(&self, amount: u64, share: Share, now: Timestamp) -> Timestamp {
        if now >= self.resets_at || self.room_at(share, now) >= amount {
            return now;
        }
        // The room never shrinks with time, so the first time with enough room can be bisected.
        let (mut before, mut fits) = (now, self.resets_at);
        while fits.since(before) > Span::from_micros(1) {
            let half = before.plus(Span::from_micros(fits.since(before).as_micros() / 2));
            if self.room_at(share, half) >= amount {
                fits = half;
            } else {
                before = half;
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollway_core::{Policy, Subject, WhenStoreFails};

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn after(seconds: u64) -> Timestamp {
        NOW.plus(Span::from_secs(seconds))
    }

    fn charge(limit: &str, subject: &str) -> Charge {
        let policy = Policy::new("api", [limit]).unwrap();
        Charge::new(Arc::new(policy), Subject::new(subject).unwrap())
    }

    /// The store's clock is a day ahead.
    const STORE_AHEAD: Span = Span::from_days(1);

    fn learn(known: &KnownUsage, charge: &Charge, remaining: u64, resets_in: u64, owed: Option<&Cost>) {
        let decided_at = NOW.plus(STORE_AHEAD);
        let capacity = charge.policy.limits()[0].capacity();
        let resets_at = after(resets_in).plus(STORE_AHEAD);
        let reading = Reading {
            capacity,
            used: capacity - remaining,
            remaining,
            resets_at,
            as_of: decided_at,
            grants: 0,
        };
        let share = Share::of_known(&charge.policy, None);
        let reading = StoreReading { charge, readings: &[reading], decided_at, owed, share };
        known.learn(&mut known.lock(), &reading, NOW);
    }

    /// How many takes are granted at this time, and when the next one fits.
    fn grants(known: &KnownUsage, charge: &Charge, now: Timestamp) -> (u64, Option<Timestamp>) {
        for granted in 0..50 {
            if let Some(denial) = known.lock().denial(std::slice::from_ref(charge), None, now) {
                return (granted, Some(denial.retry_at));
            }
            known.lock().spend(charge);
        }
        (50, None)
    }

    #[test]
    fn a_share_of_what_is_left_is_granted_until_the_reset() {
        for (left, share) in [(95, 9), (19, 1), (5, 1), (1, 1), (0, 0)] {
            let (known, charge) = (KnownUsage::new(10), charge("100 / minute", ""));
            learn(&known, &charge, left, 30, None);
            assert_eq!(grants(&known, &charge, NOW), (share, Some(after(30))), "{left} left");
            assert_eq!(grants(&known, &charge, after(29)), (0, Some(after(30))), "{left} left, later");
            assert_eq!(grants(&known, &charge, after(30)), (50, None), "{left} left, after the reset");
        }
    }

    /// C7: a caller that is known to be used up stays denied while the store is away; one that is not known passes.
    #[test]
    fn all_that_is_left_is_granted_under_an_open_policy() {
        let open = |subject: &str| {
            let policy = Policy::new("api", ["100 / minute"]).unwrap();
            let policy = policy.with_when_store_fails(WhenStoreFails::Open);
            Charge::new(Arc::new(policy), Subject::new(subject).unwrap())
        };
        for left in [12, 1, 0] {
            let known = KnownUsage::new(10);
            learn(&known, &open("known"), left, 30, None);
            assert_eq!(grants(&known, &open("known"), NOW), (left, Some(after(30))));
            assert_eq!(grants(&known, &open("unknown"), NOW), (50, None));
        }
    }

    #[test]
    fn a_bucket_refills_up_to_the_known_reset() {
        let (known, charge) = (KnownUsage::new(10), charge("100 / minute bucket", ""));
        learn(&known, &charge, 50, 30, None);
        assert_eq!(grants(&known, &charge, NOW), (5, Some(after(6))), "60 are left after six seconds");
        assert_eq!(grants(&known, &charge, after(6)), (1, Some(after(12))));
        assert_eq!(grants(&known, &charge, after(29)), (3, Some(after(30))));
    }

    #[test]
    fn debts_are_not_granted_again_after_an_answer_of_the_store() {
        let (known, charge) = (KnownUsage::new(10), charge("100 / minute", ""));
        let owed = charge.policy.cost([("requests", 3)]).unwrap();
        learn(&known, &charge, 50, 30, Some(&owed));
        assert_eq!(grants(&known, &charge, NOW).0, 2, "a tenth of 50, three of them granted before");
    }

    #[test]
    fn a_window_has_one_share_however_often_the_store_fails() {
        let (known, charge) = (KnownUsage::new(10), charge("100 / minute", ""));
        learn(&known, &charge, 50, 30, None);
        assert_eq!(grants(&known, &charge, NOW).0, 5);
        learn(&known, &charge, 45, 30, None);
        assert_eq!(grants(&known, &charge, NOW).0, 0);
        learn(&known, &charge, 90, 90, None);
        assert_eq!(grants(&known, &charge, NOW).0, 9, "another window");
    }

    #[test]
    fn an_answer_that_was_overtaken_is_ignored() {
        let (known, charge) = (KnownUsage::new(10), charge("100 / minute", ""));
        learn(&known, &charge, 50, 30, None);
        learn(&known, &charge, 90, 30, None);
        assert_eq!(grants(&known, &charge, NOW).0, 5, "of the same time, the lowest");
    }

    #[test]
    fn slots_and_impossible_costs_are_left_to_the_local_meters() {
        let known = KnownUsage::new(10);
        let slots = charge("20 concurrent", "");
        learn(&known, &slots, 0, 30, None);
        assert_eq!(grants(&known, &slots, NOW), (50, None));
        let large = charge("100 / minute", "");
        let cost = large.policy.cost([("requests", 11)]).unwrap();
        learn(&known, &large, 5, 30, None);
        assert_eq!(known.lock().denial(&[large.with_cost(cost)], None, NOW), None);
    }

    #[test]
    fn expired_accounts_make_room() {
        let known = KnownUsage::new(2);
        let charges = ["a", "b", "c"].map(|subject| charge("100 / minute", subject));
        charges.iter().for_each(|charge| learn(&known, charge, 0, 30, None));
        assert_eq!(grants(&known, &charges[1], NOW).0, 0);
        assert_eq!(grants(&known, &charges[2], NOW).0, 50, "not known");
        let decided_at = after(30);
        let reading = Reading {
            capacity: 100,
            used: 100,
            remaining: 0,
            resets_at: after(60),
            as_of: decided_at,
            grants: 0,
        };
        let share = Share::of_known(&charges[2].policy, None);
        let reading =
            StoreReading { charge: &charges[2], readings: &[reading], decided_at, owed: None, share };
        known.learn(&mut known.lock(), &reading, decided_at);
        assert_eq!(grants(&known, &charges[2], decided_at).0, 0);
    }
}
