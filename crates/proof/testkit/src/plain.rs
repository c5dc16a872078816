//! The simplest correct store: one map behind one lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tollway_core::{
    Account, AccountKey, Answer, Charge, Clock, Operation, Outcome, Store, Timestamp, Transition, apply,
};

/// A store that locks all accounts while it decides, and drops each account as soon as it expires.
///
/// Slow and correct: other stores are compared with it. The shortest example of the contract.
pub struct PlainStore {
    clock: Arc<dyn Clock>,
    accounts: Mutex<HashMap<AccountKey, Account>>,
    checked: bool,
}

impl PlainStore {
    /// A store with this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, accounts: Mutex::default(), checked: false }
    }

    /// A store that also checks the invariants at each step, and panics at the first violation.
    pub fn checked(clock: Arc<dyn Clock>) -> Self {
        Self { checked: true, ..Self::new(clock) }
    }

    fn apply_one(&self, operation: &Operation) -> Outcome {
        let mut accounts = self.accounts.lock().expect("no thread panics under the lock");
        let now = self.clock.now();
        let before = load(&accounts, &operation.charges, now);
        let mut after = before.clone();
        let applied = apply(operation, &mut after, now);
        if self.checked {
            let after = if applied.changed { &after } else { &before };
            check(operation, &before, after, &applied.outcome, now);
        }
        if applied.changed {
            accounts.extend(operation.charges.iter().map(Charge::key).zip(after));
        }
        applied.outcome
    }
}

impl Store for PlainStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        Answer::now(Ok(batch.iter().map(|operation| self.apply_one(operation)).collect()))
    }
}

/// The accounts of the charges. An expired one is replaced by a fresh one, which must make no difference (I6).
pub(crate) fn load(
    accounts: &HashMap<AccountKey, Account>,
    charges: &[Charge],
    now: Timestamp,
) -> Vec<Account> {
    let account_of = |charge: &Charge| match accounts.get(&charge.key()) {
        Some(account) if account.expires > now => account.clone(),
        _ => Account::new(&charge.policy),
    };
    charges.iter().map(account_of).collect()
}

fn check(operation: &Operation, before: &[Account], after: &[Account], outcome: &Outcome, now: Timestamp) {
    let transition = Transition { operation, before, after, outcome, now };
    if let Err(violation) = transition.check() {
        panic!("{violation}\nbefore: {before:?}\nafter: {after:?}\nanswer: {outcome:?}");
    }
}
