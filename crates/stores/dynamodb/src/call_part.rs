//! The part of a call that one write can carry, and the engine's decision on it.

use std::collections::{BTreeMap, BTreeSet};

use tollway_core::bounds::CHARGES_PER_TAKE_MAX;
use tollway_core::{Account, AccountKey, Operation, Outcomes, Timestamp, apply};
use tollway_remote::Call;

use crate::cache::CachedItem;

/// The most accounts of one write: DynamoDB's bound for a transaction.
const LINES_PER_WRITE_MAX: usize = 100;

/// The states that a decision is made on, by key.
pub(crate) type CachedItems = BTreeMap<String, CachedItem>;

/// Operations of a call, in order, on few enough accounts.
#[derive(Debug)]
pub(crate) struct CallPart<'a> {
    pub(crate) operations: &'a [Operation],
    /// The accounts that they name.
    pub(crate) keys: BTreeSet<String>,
    /// The account that they all name, whose item remembers its writers.
    pub(crate) tag: String,
}

/// The engine's decision on a part.
#[derive(Debug)]
pub(crate) struct PartDecision {
    pub(crate) outcomes: Outcomes,
    /// The accounts that the decision changes.
    pub(crate) changed: BTreeMap<String, Account>,
}

impl<'a> CallPart<'a> {
    /// The operations of the call that come after `done` others, as many as one write can carry.
    pub(crate) fn next(call: &'a Call, done: usize) -> Self {
        let left = call.operations.get(done..).unwrap_or_default();
        let mut keys = BTreeSet::new();
        let mut count = 0;
        for operation in left {
            let more: Vec<String> =
                keys_of(operation).map(|key| key.to_string()).filter(|key| !keys.contains(key)).collect();
            if count > 0 && keys.len() + more.len() > LINES_PER_WRITE_MAX {
                break;
            }
            keys.extend(more);
            count += 1;
        }
        let tag = call.tag.account().to_string();
        keys.insert(tag.clone());
        Self { operations: left.get(..count).unwrap_or_default(), keys, tag }
    }

    /// Runs the engine on copies of these states.
    pub(crate) fn decide(&self, found: &CachedItems, now: Timestamp) -> PartDecision {
        let mut decided = PartDecision { outcomes: Outcomes::new(), changed: BTreeMap::new() };
        for operation in self.operations {
            let keys: Vec<String> = operation.keys().map(|key| key.to_string()).collect();
            let mut accounts: Vec<Account> = keys
                .iter()
                .zip(&operation.charges)
                .map(|(key, charge)| {
                    let known = || Some(found.get(key)?.item.as_ref()?.account.clone());
                    let account = decided.changed.get(key).cloned().or_else(known);
                    account.unwrap_or_else(|| Account::new(&charge.policy))
                })
                .collect();
            let applied = apply(operation, &mut accounts, now);
            if applied.changed {
                decided.changed.extend(keys.into_iter().zip(accounts));
            }
            decided.outcomes.push(applied.outcome);
        }
        decided
    }
}

/// The accounts that must be read. The engine refuses operations with more charges than this.
fn keys_of(operation: &Operation) -> impl Iterator<Item = AccountKey> {
    let refused = operation.charges.len() > CHARGES_PER_TAKE_MAX;
    operation.keys().take(if refused { 0 } else { usize::MAX })
}
