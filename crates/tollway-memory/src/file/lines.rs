//! The lines of a state file and the limits that are set, as this process knows them.

use std::collections::{HashMap, HashSet};

use tollway_core::{
    Account, AccountKey, Charge, Invariant, Operation, Outcome, Setting, SettingChange, SettingList,
    StoreError, Timestamp, apply,
};

use super::bounds::{FILE_LINES_MAX, FORGOTTEN_AT_ONCE};
use super::record::{Entry, Record};

/// What a new line is taken to need until it has been written once.
const NEW_LINE_BYTES: usize = 512;

/// What a record needs beside its lines.
const RECORD_BYTES_OVERHEAD: usize = 32;

/// All lines, and which of them the file does not know yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: HashMap<AccountKey, Held>,
    changed: HashSet<AccountKey>,
    changed_bytes: usize,
    forgotten: Timestamp,
    settings: SettingList,
    /// Whether the file does not know all settings yet.
    settings_changed: bool,
    /// Looking for lines to forget was in vain and will be until then.
    none_expires_before: Timestamp,
}

#[derive(Debug)]
struct Held {
    line: Account,
    bytes: usize,
}

impl Lines {
    /// Takes in what somebody wrote.
    pub(super) fn take_in(&mut self, record: Record) -> serde_json::Result<()> {
        self.forgotten = self.forgotten.max(record.forgotten);
        if let Some(settings) = record.settings {
            self.settings = SettingList::new(settings);
        }
        for text in record.lines {
            let Entry { key, line } = Entry::decode(&text)?;
            match line {
                Some(line) => self.held.insert(key, Held { line, bytes: text.get().len() }),
                None => self.held.remove(&key),
            };
        }
        Ok(())
    }

    /// The store's time: the clock's, but never before a time at which forgotten lines were as good as new. A clock
    /// that is set back would otherwise find them new while they still count (I6, I7).
    pub(super) fn time(&self, clock: Timestamp) -> Timestamp {
        clock.max(self.forgotten)
    }

    /// The limits that are set.
    pub(super) fn settings(&self) -> &[Setting] {
        self.settings.all()
    }

    /// Changes what is set for a limit.
    pub(super) fn change(&mut self, change: SettingChange, now: Timestamp) -> Result<(), StoreError> {
        self.settings.change(change, now)?;
        self.settings_changed = true;
        Ok(())
    }

    /// Applies one operation.
    pub(super) fn apply(&mut self, operation: &Operation, now: Timestamp) -> Outcome {
        let keys: Vec<AccountKey> = operation.keys().collect();
        let known = |(charge, key): (&Charge, &AccountKey)| {
            self.held.get(key).map_or_else(|| Account::new(&charge.policy), |held| held.line.clone())
        };
        let mut lines: Vec<Account> = operation.charges.iter().zip(&keys).map(known).collect();
        let applied = apply(operation, &mut lines, now);
        if matches!(&applied.outcome, Outcome::Decided(decision) if decision.over) {
            tracing::error!(invariant = Invariant::NeverOver.id(), "a grant exceeded its limit");
        }
        if applied.changed {
            keys.into_iter().zip(lines).for_each(|(key, line)| self.keep(key, line));
        }
        applied.outcome
    }

    fn keep(&mut self, key: AccountKey, line: Account) {
        let bytes = match self.held.get_mut(&key) {
            // A charge that the operation left alone, such as a shadow that would have denied.
            Some(held) if held.line == line => return,
            Some(held) => {
                held.line = line;
                held.bytes
            }
            None => {
                self.held.insert(key.clone(), Held { line, bytes: NEW_LINE_BYTES });
                NEW_LINE_BYTES
            }
        };
        if self.changed.insert(key) {
            self.changed_bytes = self.changed_bytes.saturating_add(bytes);
        }
    }

    /// Makes room for the lines that these operations could add, and says whether there is.
    pub(super) fn make_room(&mut self, operations: &[Operation], now: Timestamp) -> bool {
        let makers = || operations.iter().filter(|operation| operation.creates_max() > 0);
        let most: usize = makers().map(Operation::creates_max).sum();
        if self.held.len().saturating_add(most) <= FILE_LINES_MAX {
            return true;
        }
        self.forget_some(most.max(FORGOTTEN_AT_ONCE), now);
        let new: HashSet<AccountKey> =
            makers().flat_map(Operation::keys).filter(|key| !self.held.contains_key(key)).collect();
        self.held.len().saturating_add(new.len()) <= FILE_LINES_MAX
    }

    /// Forgets lines that are as good as new, in memory and with the next record.
    fn forget_some(&mut self, most: usize, now: Timestamp) {
        if now < self.none_expires_before {
            return;
        }
        let expired = self.held.iter().filter(|(_, held)| held.line.expires <= now);
        let expired: Vec<AccountKey> = expired.map(|(key, _)| key.clone()).take(most).collect();
        if expired.is_empty() {
            let next = self.held.values().map(|held| held.line.expires).min();
            self.none_expires_before = next.unwrap_or_default();
        }
        for key in expired {
            if let Some(held) = self.held.remove(&key) {
                self.forgotten = self.forgotten.max(held.line.expires);
                self.changed.insert(key);
            }
        }
    }

    /// How much waits to be written, about.
    pub(super) fn changed_bytes(&self) -> usize {
        self.changed_bytes
    }

    /// All that waits to be written as one record; nothing if nothing does.
    pub(super) fn changes(&mut self) -> serde_json::Result<Option<String>> {
        if self.changed.is_empty() && !self.settings_changed {
            return Ok(None);
        }
        let mut lines = Vec::with_capacity(self.changed.len());
        for key in &self.changed {
            let held = self.held.get_mut(key);
            let entry = Entry { key: key.clone(), line: held.as_ref().map(|held| &held.line) };
            let text = entry.encode()?;
            if let Some(held) = held {
                held.bytes = text.get().len();
            }
            lines.push(text);
        }
        let settings = self.settings_changed.then(|| self.settings.all().to_vec());
        Record { forgotten: self.forgotten, settings, lines }.encode().map(Some)
    }

    /// The file knows all that had changed.
    pub(super) fn written(&mut self) {
        self.changed.clear();
        self.settings_changed = false;
        self.changed_bytes = 0;
    }

    /// What a new file with the lines that still count would need.
    pub(super) fn live_bytes(&self, now: Timestamp) -> u64 {
        let live = self.held.values().filter(|held| held.line.expires > now);
        live.map(|held| widen(held.bytes.saturating_add(RECORD_BYTES_OVERHEAD))).sum()
    }

    /// Forgets every line that is as good as new. For whoever writes [`Lines::records`] next.
    pub(super) fn forget_expired(&mut self, now: Timestamp) {
        let mut forgotten = self.forgotten;
        self.held.retain(|_, held| {
            let live = held.line.expires > now;
            if !live {
                forgotten = forgotten.max(held.line.expires);
            }
            live
        });
        self.forgotten = forgotten;
    }

    /// The records of a new file, one for each line.
    pub(super) fn records(&self) -> impl Iterator<Item = serde_json::Result<String>> {
        let settings = Some(self.settings.all().to_vec()).filter(|settings| !settings.is_empty());
        let first = Record { forgotten: self.forgotten, settings, lines: Vec::new() }.encode();
        let lines = self.held.iter().map(|(key, held)| {
            let text = Entry { key: key.clone(), line: Some(&held.line) }.encode()?;
            Record { forgotten: Timestamp::EPOCH, settings: None, lines: vec![text] }.encode()
        });
        std::iter::once(first).chain(lines)
    }
}

fn widen(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
