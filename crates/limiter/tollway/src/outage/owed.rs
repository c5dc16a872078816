//! What was granted without the store, by account.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollway_core::bounds::AMOUNT_MAX;
use tollway_core::{AccountKey, Booking, Charge, Cost, Part, Policy, Subject};

use crate::outage::fallback::{LOCAL_ACCOUNTS, cost_of};

/// What was granted locally, by account; at most `LOCAL_ACCOUNTS` entries each.
#[derive(Default)]
pub(crate) struct Debts {
    granted: HashMap<AccountKey, Owed>,
    /// Those whose settlement was sent and may have been applied.
    sent: HashMap<AccountKey, Owed>,
}

/// What was granted to one account without the store.
#[derive(Clone)]
pub(crate) struct Owed {
    pub(crate) policy: Arc<Policy>,
    pub(crate) subject: Subject,
    /// The part of the store that was away. The account may be on another one since.
    pub(crate) part: Part,
    /// The part that still counts and must be debited.
    pub(crate) spent: Cost,
    /// Everything that was granted.
    pub(crate) granted: Cost,
    /// Under which `spent` was settled, if that was sent and may have been applied.
    pub(crate) sent: Option<Booking>,
}

impl Owed {
    fn key(&self) -> AccountKey {
        AccountKey { policy: self.policy.name().clone(), subject: self.subject.clone() }
    }
}

impl Debts {
    pub(crate) fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.sent.is_empty()
    }

    /// The debts of one account, at most two.
    pub(crate) fn of(&self, key: &AccountKey) -> impl Iterator<Item = &Owed> {
        [self.sent.get(key), self.granted.get(key)].into_iter().flatten()
    }

    /// The parts under whose outages there are debts.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let parts: HashSet<&Part> =
            self.granted.values().chain(self.sent.values()).map(|owed| &owed.part).collect();
        parts.into_iter().cloned().collect()
    }

    /// What was sent and may have been applied, and what is new, of this part. Nothing new of an account for which something was
    /// sent.
    pub(crate) fn of_part(&self, part: &Part) -> (Vec<Owed>, Vec<Owed>) {
        let new = self.granted.iter().filter(|(key, _)| !self.sent.contains_key(key)).map(|(_, owed)| owed);
        let of_part = |owed: &&Owed| owed.part == *part;
        (self.sent.values().filter(of_part).cloned().collect(), new.filter(of_part).cloned().collect())
    }

    /// Counts a grant. An account with a debt keeps the part of that debt. False if there is no room for the account.
    pub(crate) fn note_granted(&mut self, charge: &Charge, part: Part) -> bool {
        let (policy, key) = (&charge.policy, charge.key());
        if self.granted.len() >= LOCAL_ACCOUNTS && !self.granted.contains_key(&key) {
            return false;
        }
        let owed = self.granted.entry(key).or_insert_with(|| Owed {
            policy: Arc::clone(policy),
            subject: charge.subject.clone(),
            part,
            spent: cost_of(policy, |_| 0),
            granted: cost_of(policy, |_| 0),
            sent: None,
        });
        let same_units = owed.policy.units() == policy.units();
        let before = if same_units { owed.granted.clone() } else { cost_of(policy, |_| 0) };
        owed.policy = Arc::clone(policy);
        owed.granted =
            cost_of(policy, |unit| before.of(unit).saturating_add(charge.cost().of(unit)).min(AMOUNT_MAX));
        true
    }

    /// Keeps a debt with the booking under which it is about to be settled.
    pub(crate) fn settling_under(&mut self, owed: &Owed, booking: Booking) {
        self.subtract(owed);
        self.sent.insert(owed.key(), Owed { sent: Some(booking), ..owed.clone() });
    }

    /// Removes what the store was debited.
    pub(crate) fn settled(&mut self, debited: &Owed) {
        if debited.sent.is_some() {
            self.sent.remove(&debited.key());
        } else {
            self.subtract(debited);
        }
    }

    /// Takes back [`Debts::settled`].
    pub(crate) fn still_owed(&mut self, sent: Owed) {
        self.sent.insert(sent.key(), sent);
    }

    /// Removes what was debited. Grants made meanwhile stay.
    fn subtract(&mut self, debited: &Owed) {
        let key = debited.key();
        let Some(owed) = self.granted.get_mut(&key) else { return };
        let policy = Arc::clone(&owed.policy);
        let left = |unit| owed.granted.of(unit).saturating_sub(debited.granted.of(unit));
        let left = cost_of(&policy, |unit| {
            if policy.units() == debited.policy.units() { left(unit) } else { owed.granted.of(unit) }
        });
        if left.amounts().iter().all(|amount| *amount == 0) {
            self.granted.remove(&key);
        } else {
            owed.granted = left;
        }
    }
}
