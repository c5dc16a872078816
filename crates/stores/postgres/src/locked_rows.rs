//! The rows that a transaction has locked: read, changed here by the engine, written back together.

use std::collections::BTreeMap;

use tollway_core::{Account, AccountKey, Applied, Operation, Outcomes, StoreError, Timestamp, apply};
use tollway_remote::Call;

use crate::error::unreadable;

/// The accounts of one transaction, by their stored keys.
#[derive(Debug, Default)]
pub(crate) struct LockedRows {
    accounts: BTreeMap<Vec<u8>, Stored>,
}

/// One account: as stored, or read and perhaps changed.
#[derive(Debug)]
enum Stored {
    Unread(Vec<u8>),
    Read { account: Account, changed: bool },
}

/// The outcomes of a call.
pub(crate) struct Served {
    pub(crate) outcomes: Outcomes,
    /// The accounts as it found them, if it changed any: from them it can be answered again.
    pub(crate) found: Option<Vec<u8>>,
}

/// An account to be written.
pub(crate) struct ChangedAccount<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) account: Vec<u8>,
    /// When it is as good as new.
    pub(crate) expires: Timestamp,
}

impl LockedRows {
    /// Adds a row that was read.
    pub(crate) fn insert(&mut self, key: Vec<u8>, account: Vec<u8>) {
        self.accounts.insert(key, Stored::Unread(account));
    }

    /// Applies the operations of a call, in order.
    pub(crate) fn serve(&mut self, call: &Call, now: Timestamp) -> Result<Served, StoreError> {
        let found = self.found(call)?;
        let mut changed = false;
        let mut outcomes = Outcomes::with_capacity(call.operations.len());
        for operation in &*call.operations {
            let applied = self.apply(operation, now);
            changed |= applied.changed;
            outcomes.push(applied.outcome);
        }
        let found = changed.then(|| write(&found)).transpose()?;
        Ok(Served { outcomes, found })
    }

    /// Answers a call as when it found these accounts: the engine is a pure function of accounts and time.
    pub(crate) fn serve_again(call: &Call, found: &[u8], at: Timestamp) -> Result<Outcomes, StoreError> {
        let found: Vec<(String, Account)> =
            serde_json::from_slice(found).map_err(|error| unreadable("an applied call", &error))?;
        let mut rows = Self::default();
        for (key, account) in found {
            rows.accounts.insert(key.into_bytes(), Stored::Read { account, changed: false });
        }
        Ok(call.operations.iter().map(|operation| rows.apply(operation, at).outcome).collect())
    }

    /// What is to be written.
    pub(crate) fn changed(&self) -> Result<Vec<ChangedAccount<'_>>, StoreError> {
        let changed = self.accounts.iter().filter_map(|(key, stored)| match stored {
            Stored::Read { account, changed: true } => Some((key, account)),
            _ => None,
        });
        changed
            .map(|(key, account)| {
                Ok(ChangedAccount { key, account: write(account)?, expires: account.expires })
            })
            .collect()
    }

    /// The stored accounts that the call names, read, each once.
    fn found(&mut self, call: &Call) -> Result<Vec<(String, Account)>, StoreError> {
        let mut keys: Vec<AccountKey> = call.operations.iter().flat_map(Operation::keys).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let key = key.to_string();
            if let Some(stored) = self.accounts.get_mut(key.as_bytes()) {
                found.push((key, stored.read()?.clone()));
            }
        }
        Ok(found)
    }

    fn apply(&mut self, operation: &Operation, now: Timestamp) -> Applied {
        let keys: Vec<Vec<u8>> = operation.keys().map(|key| stored_key(&key)).collect();
        let known = |key: &Vec<u8>| match self.accounts.get(key) {
            Some(Stored::Read { account, .. }) => Some(account.clone()),
            _ => None,
        };
        let charges = keys.iter().zip(&operation.charges);
        let mut accounts: Vec<Account> =
            charges.map(|(key, charge)| known(key).unwrap_or_else(|| Account::new(&charge.policy))).collect();
        let applied = apply(operation, &mut accounts, now);
        if applied.changed {
            for (key, account) in keys.into_iter().zip(accounts) {
                self.accounts.insert(key, Stored::Read { account, changed: true });
            }
        }
        applied
    }
}

impl Stored {
    fn read(&mut self) -> Result<&Account, StoreError> {
        if let Self::Unread(bytes) = self {
            let account = serde_json::from_slice(bytes).map_err(|error| unreadable("an account", &error))?;
            *self = Self::Read { account, changed: false };
        }
        match self {
            Self::Read { account, .. } => Ok(account),
            Self::Unread(_) => Err(unreadable("an account", &"it was not read")),
        }
    }
}

/// A key as it is stored.
pub(crate) fn stored_key(key: &AccountKey) -> Vec<u8> {
    key.to_string().into_bytes()
}

fn write(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| unreadable("what is to be written", &error))
}
