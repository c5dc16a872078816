//! The rows that a transaction has locked: read, changed here by the engine, written back together.

use std::collections::BTreeMap;

use tollway_core::{Account, AccountKey, Applied, Operation, Outcomes, StoreError, Timestamp, apply};
use tollway_remote::Call;

use crate::error::unreadable;

/// The lines of one transaction, by their keys as they are stored.
#[derive(Debug, Default)]
pub(crate) struct LockedRows {
    lines: BTreeMap<Vec<u8>, Stored>,
}

/// One line: as it is stored, or read and perhaps changed.
#[derive(Debug)]
enum Stored {
    Unread(Vec<u8>),
    Read { line: Account, changed: bool },
}

/// The outcomes of a call.
pub(crate) struct Served {
    pub(crate) outcomes: Outcomes,
    /// The lines it found, if it changed any: from them it can be answered again.
    pub(crate) found: Option<Vec<u8>>,
}

/// A line to be written.
pub(crate) struct ChangedLine<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) line: Vec<u8>,
    /// When it is as good as new.
    pub(crate) expires: Timestamp,
}

impl LockedRows {
    /// Adds a row that was read.
    pub(crate) fn insert(&mut self, key: Vec<u8>, line: Vec<u8>) {
        self.lines.insert(key, Stored::Unread(line));
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

    /// Answers a call as it was answered when it found these lines: the engine is a pure function of lines and time.
    pub(crate) fn serve_again(call: &Call, found: &[u8], at: Timestamp) -> Result<Outcomes, StoreError> {
        let found: Vec<(String, Account)> =
            serde_json::from_slice(found).map_err(|error| unreadable("an applied call", &error))?;
        let mut rows = Self::default();
        for (key, line) in found {
            rows.lines.insert(key.into_bytes(), Stored::Read { line, changed: false });
        }
        Ok(call.operations.iter().map(|operation| rows.apply(operation, at).outcome).collect())
    }

    /// What is to be written.
    pub(crate) fn changed(&self) -> Result<Vec<ChangedLine<'_>>, StoreError> {
        let changed = self.lines.iter().filter_map(|(key, stored)| match stored {
            Stored::Read { line, changed: true } => Some((key, line)),
            _ => None,
        });
        changed
            .map(|(key, line)| Ok(ChangedLine { key, line: write(line)?, expires: line.expires }))
            .collect()
    }

    /// The lines that the call names and that are there, read; none twice.
    fn found(&mut self, call: &Call) -> Result<Vec<(String, Account)>, StoreError> {
        let mut keys: Vec<AccountKey> = call.operations.iter().flat_map(Operation::keys).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let key = key.to_string();
            if let Some(stored) = self.lines.get_mut(key.as_bytes()) {
                found.push((key, stored.read()?.clone()));
            }
        }
        Ok(found)
    }

    fn apply(&mut self, operation: &Operation, now: Timestamp) -> Applied {
        let keys: Vec<Vec<u8>> = operation.keys().map(|key| stored_key(&key)).collect();
        let known = |key: &Vec<u8>| match self.lines.get(key) {
            Some(Stored::Read { line, .. }) => Some(line.clone()),
            _ => None,
        };
        let charges = keys.iter().zip(&operation.charges);
        let mut lines: Vec<Account> =
            charges.map(|(key, charge)| known(key).unwrap_or_else(|| Account::new(&charge.policy))).collect();
        let applied = apply(operation, &mut lines, now);
        if applied.changed {
            for (key, line) in keys.into_iter().zip(lines) {
                self.lines.insert(key, Stored::Read { line, changed: true });
            }
        }
        applied
    }
}

impl Stored {
    fn read(&mut self) -> Result<&Account, StoreError> {
        if let Self::Unread(bytes) = self {
            let line = serde_json::from_slice(bytes).map_err(|error| unreadable("a line", &error))?;
            *self = Self::Read { line, changed: false };
        }
        match self {
            Self::Read { line, .. } => Ok(line),
            Self::Unread(_) => Err(unreadable("a line", &"it was not read")),
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
