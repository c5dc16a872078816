//! The simplest right store: one map behind one lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tollway_core::{
    Account, AccountKey, Answer, Charge, Clock, Operation, Outcome, Store, Timestamp, Transition, apply,
};

/// A store that holds all accounts while it decides, and forgets each as soon as it may.
///
/// Slow and right: what other stores are compared with, and the shortest example of the contract.
pub struct PlainStore {
    clock: Arc<dyn Clock>,
    accounts: Mutex<HashMap<AccountKey, Account>>,
    judged: bool,
}

impl PlainStore {
    /// A store with this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, accounts: Mutex::default(), judged: false }
    }

    /// A store that also judges each of its steps by the engine's invariants, and panics at the first that is broken.
    pub fn judged(clock: Arc<dyn Clock>) -> Self {
        Self { judged: true, ..Self::new(clock) }
    }

    fn apply_one(&self, operation: &Operation) -> Outcome {
        let mut kept = self.accounts.lock().expect("nobody panics while holding the accounts");
        let now = self.clock.now();
        let before = load(&kept, &operation.charges, now);
        let mut after = before.clone();
        let applied = apply(operation, &mut after, now);
        if self.judged {
            let after = if applied.changed { &after } else { &before };
            judge(operation, &before, after, &applied.outcome, now);
        }
        if applied.changed {
            kept.extend(operation.charges.iter().map(Charge::key).zip(after));
        }
        applied.outcome
    }
}

impl Store for PlainStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        Answer::now(Ok(batch.iter().map(|operation| self.apply_one(operation)).collect()))
    }
}

/// The accounts of the charges; one that has expired is new, which must make no difference (I6).
pub(crate) fn load(kept: &HashMap<AccountKey, Account>, charges: &[Charge], now: Timestamp) -> Vec<Account> {
    let account_of = |charge: &Charge| match kept.get(&charge.key()) {
        Some(account) if account.expires > now => account.clone(),
        _ => Account::new(&charge.policy),
    };
    charges.iter().map(account_of).collect()
}

fn judge(operation: &Operation, before: &[Account], after: &[Account], outcome: &Outcome, now: Timestamp) {
    let transition = Transition { operation, before, after, outcome, now };
    if let Err(violation) = transition.check() {
        panic!("{violation}\nbefore: {before:?}\nafter: {after:?}\nanswer: {outcome:?}");
    }
}
