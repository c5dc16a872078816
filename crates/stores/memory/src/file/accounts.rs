//! The accounts and the settings of a state file, as this process knows them.

use std::collections::{HashMap, HashSet};

use tollway_core::{
    Account, AccountKey, AccountList, Charge, Invariant, Name, Operation, Outcome, Setting, SettingChange,
    SettingList, StoreError, TimeAnchor, Timestamp, apply,
};

use super::bounds::{DELETED_AT_ONCE, FILE_ACCOUNTS_MAX};
use super::record::{Entry, FileRecord};
use crate::state_clock::NewAnchor;

/// The assumed size of a new account until it has been written once.
const NEW_ACCOUNT_BYTES: usize = 512;

/// The size of a record without its accounts.
const RECORD_BYTES_OVERHEAD: usize = 32;

/// All accounts, and which of them must still be written.
#[derive(Debug, Default)]
pub(super) struct FileAccounts {
    accounts: HashMap<AccountKey, StoredAccount>,
    changed: HashSet<AccountKey>,
    changed_bytes: usize,
    forgotten: Timestamp,
    /// The newest clock reading of any account.
    newest: Timestamp,
    /// From where the store's time goes on, as the file says.
    anchor: Option<TimeAnchor>,
    /// What it should say from the next record on.
    new_anchor: Option<NewAnchor>,
    settings: SettingList,
    /// Whether the settings must still be written.
    settings_changed: bool,
    /// No account expires before this time, so a search for expired ones is useless until then.
    none_expires_before: Timestamp,
}

#[derive(Debug)]
struct StoredAccount {
    account: Account,
    bytes: usize,
}

impl FileAccounts {
    /// Loads a record that this or another process wrote.
    pub(super) fn load(&mut self, record: FileRecord) -> serde_json::Result<()> {
        self.forgotten = self.forgotten.max(record.forgotten);
        self.anchor = record.clock.or(self.anchor);
        if let Some(settings) = record.settings {
            self.settings = SettingList::new(settings);
        }
        for text in record.accounts {
            let Entry { key, account } = Entry::decode(&text)?;
            self.newest = account.as_ref().map_or(self.newest, |account| self.newest.max(account.seen));
            match account {
                Some(account) => {
                    self.accounts.insert(key, StoredAccount { account, bytes: text.get().len() })
                }
                None => self.accounts.remove(&key),
            };
        }
        Ok(())
    }

    /// The store's time never goes back behind this: otherwise a clock that is set back would grant the quota of deleted
    /// accounts twice.
    pub(super) fn forgotten(&self) -> Timestamp {
        self.forgotten
    }

    /// The newest time in the file.
    pub(super) fn newest(&self) -> Timestamp {
        self.newest.max(self.forgotten)
    }

    /// From where the store's time goes on, as the file says.
    pub(super) fn anchor(&self) -> Option<TimeAnchor> {
        self.anchor
    }

    /// What the file should say with its next record. If that is urgent, there is one even if nothing else changes.
    pub(super) fn keep_anchor(&mut self, new: Option<NewAnchor>) {
        self.new_anchor = new;
    }

    /// All settings.
    pub(super) fn settings(&self) -> &[Setting] {
        self.settings.all()
    }

    /// The accounts that have not expired, of one policy or of all.
    pub(super) fn list(&self, policy: Option<&Name>, at_most: usize, now: Timestamp) -> AccountList {
        let live = self.accounts.iter().filter(|(_, stored)| stored.account.expires > now);
        let keys = live.map(|(key, _)| key).filter(|key| policy.is_none_or(|policy| key.policy == *policy));
        AccountList::of(keys.cloned(), at_most)
    }

    /// Changes the setting of a limit.
    pub(super) fn change(&mut self, change: SettingChange, now: Timestamp) -> Result<(), StoreError> {
        self.settings.change(change, now)?;
        self.settings_changed = true;
        Ok(())
    }

    /// Applies one operation.
    pub(super) fn apply(&mut self, operation: &Operation, now: Timestamp) -> Outcome {
        let keys: Vec<AccountKey> = operation.keys().collect();
        let known = |(charge, key): (&Charge, &AccountKey)| {
            self.accounts
                .get(key)
                .map_or_else(|| Account::new(&charge.policy), |stored| stored.account.clone())
        };
        let mut accounts: Vec<Account> = operation.charges.iter().zip(&keys).map(known).collect();
        let applied = apply(operation, &mut accounts, now);
        if matches!(&applied.outcome, Outcome::Decided(decision) if decision.over) {
            tracing::error!(invariant = Invariant::NeverOver.id(), "a grant exceeded its limit");
        }
        if applied.changed {
            keys.into_iter().zip(accounts).for_each(|(key, account)| self.keep(key, account));
        }
        applied.outcome
    }

    fn keep(&mut self, key: AccountKey, account: Account) {
        self.newest = self.newest.max(account.seen);
        let bytes = match self.accounts.get_mut(&key) {
            // The operation did not change this account, such as a shadow that would have denied.
            Some(stored) if stored.account == account => return,
            Some(stored) => {
                stored.account = account;
                stored.bytes
            }
            None => {
                self.accounts.insert(key.clone(), StoredAccount { account, bytes: NEW_ACCOUNT_BYTES });
                NEW_ACCOUNT_BYTES
            }
        };
        if self.changed.insert(key) {
            self.changed_bytes = self.changed_bytes.saturating_add(bytes);
        }
    }

    /// Makes room for the accounts that these operations could add. Returns whether there is room.
    pub(super) fn make_room(&mut self, operations: &[Operation], now: Timestamp) -> bool {
        let creating = || operations.iter().filter(|operation| operation.creates_max() > 0);
        let most: usize = creating().map(Operation::creates_max).sum();
        if self.accounts.len().saturating_add(most) <= FILE_ACCOUNTS_MAX {
            return true;
        }
        self.delete_expired_up_to(most.max(DELETED_AT_ONCE), now);
        let new: HashSet<AccountKey> =
            creating().flat_map(Operation::keys).filter(|key| !self.accounts.contains_key(key)).collect();
        self.accounts.len().saturating_add(new.len()) <= FILE_ACCOUNTS_MAX
    }

    /// Deletes up to `most` expired accounts, in memory and with the next record.
    fn delete_expired_up_to(&mut self, most: usize, now: Timestamp) {
        if now < self.none_expires_before {
            return;
        }
        let expired = self.accounts.iter().filter(|(_, stored)| stored.account.expires <= now);
        let expired: Vec<AccountKey> = expired.map(|(key, _)| key.clone()).take(most).collect();
        if expired.is_empty() {
            let next = self.accounts.values().map(|stored| stored.account.expires).min();
            self.none_expires_before = next.unwrap_or_default();
        }
        for key in expired {
            if let Some(stored) = self.accounts.remove(&key) {
                self.forgotten = self.forgotten.max(stored.account.expires);
                self.changed.insert(key);
            }
        }
    }

    /// The approximate size of the unwritten changes.
    pub(super) fn changed_bytes(&self) -> usize {
        self.changed_bytes
    }

    /// All unwritten changes as one record; `None` if there are none.
    pub(super) fn changes(&mut self) -> serde_json::Result<Option<String>> {
        if !self.must_be_written() {
            return Ok(None);
        }
        let mut accounts = Vec::with_capacity(self.changed.len());
        for key in &self.changed {
            let stored = self.accounts.get_mut(key);
            let entry = Entry { key: key.clone(), account: stored.as_ref().map(|stored| &stored.account) };
            let text = entry.encode()?;
            if let Some(stored) = stored {
                stored.bytes = text.get().len();
            }
            accounts.push(text);
        }
        let settings = self.settings_changed.then(|| self.settings.all().to_vec());
        let clock = self.new_anchor.map(|new| new.anchor);
        FileRecord { forgotten: self.forgotten, clock, settings, accounts }.encode().map(Some)
    }

    fn must_be_written(&self) -> bool {
        let urgent = self.new_anchor.is_some_and(|new| new.urgent);
        !self.changed.is_empty() || self.settings_changed || urgent
    }

    /// Marks all changes as written.
    pub(super) fn written(&mut self) {
        if self.must_be_written() {
            self.anchor = self.new_anchor.take().map(|new| new.anchor).or(self.anchor);
        }
        self.changed.clear();
        self.settings_changed = false;
        self.changed_bytes = 0;
    }

    /// The size of a new file with only the accounts that have not expired.
    pub(super) fn live_bytes(&self, now: Timestamp) -> u64 {
        let live = self.accounts.values().filter(|stored| stored.account.expires > now);
        live.map(|stored| widen(stored.bytes.saturating_add(RECORD_BYTES_OVERHEAD))).sum()
    }

    /// Deletes every expired account, before [`FileAccounts::records`] are written.
    pub(super) fn delete_expired(&mut self, now: Timestamp) {
        let mut forgotten = self.forgotten;
        self.accounts.retain(|_, stored| {
            let live = stored.account.expires > now;
            if !live {
                forgotten = forgotten.max(stored.account.expires);
            }
            live
        });
        self.forgotten = forgotten;
    }

    /// The records of a new file, one per account.
    pub(super) fn records(&self) -> impl Iterator<Item = serde_json::Result<String>> {
        let settings = Some(self.settings.all().to_vec()).filter(|settings| !settings.is_empty());
        let clock = self.new_anchor.map(|new| new.anchor).or(self.anchor);
        let first = FileRecord { forgotten: self.forgotten, clock, settings, accounts: Vec::new() }.encode();
        let accounts = self.accounts.iter().map(|(key, stored)| {
            let text = Entry { key: key.clone(), account: Some(&stored.account) }.encode()?;
            FileRecord { forgotten: Timestamp::EPOCH, clock: None, settings: None, accounts: vec![text] }
                .encode()
        });
        std::iter::once(first).chain(accounts)
    }
}

fn widen(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tollway_core::{Action, Charges, PermitId, Policy, Span, Subject, Terms};

    use super::*;

    /// The account's time stands still while the clock is behind: a denial lasts that much longer.
    #[test]
    fn a_clock_set_back_is_behind_the_newest_reading_in_the_file() {
        let (noon, hour) = (Timestamp::from_secs(43_200), Span::from_hours(1));
        let policy = std::sync::Arc::new(Policy::new("adobe", ["1 requests / minute"]).unwrap());
        let charges = Charges::from_iter([Charge::new(policy, Subject::SHARED)]);
        let terms = |number| Terms::now(PermitId(number));
        let mut accounts = FileAccounts::default();
        let mut wait = |number, now| {
            let operation = Operation { charges: charges.clone(), action: Action::Take(terms(number)) };
            let Outcome::Decided(decision) = accounts.apply(&operation, now) else {
                panic!("a take is decided")
            };
            let grants_at = decision.wait().plus(accounts.newest().since(now));
            (decision.is_granted(), grants_at)
        };
        assert_eq!(wait(1, noon), (true, Span::ZERO));
        for minutes in [0, 1, 59] {
            let clock = noon.minus(hour).plus(Span::from_mins(minutes));
            let true_wait = noon.plus(Span::from_mins(1)).since(clock);
            assert_eq!(wait(2, clock), (false, true_wait), "{minutes} minutes later");
        }
        assert!(wait(3, noon.plus(Span::from_mins(1))).0);
    }
}
