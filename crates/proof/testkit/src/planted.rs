//! Stores with one planted bug each. The suite must catch every one of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;

use tollway_core::{
    Account, AccountKey, Action, Answer, Applied, Clock, Decision, Operation, Outcome, Span, Store,
    TakeOutcome, Timestamp, apply,
};

use crate::plain::load;

/// The bug of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Reads the accounts, unlocks them, decides, writes: two takes read the same count and both are granted.
    CheckThenAdd,
    /// Counts costs in 16 bits: a cost of 65,537 takes one unit.
    Wrap,
    /// Drops an account shortly before it expires.
    LostExpiry,
    /// Applies a granted take twice, as a retry without an id would.
    DoubleCharge,
    /// A denied take over several charges still debits the ones that had room.
    LeakingDenial,
    /// Returns a booking time a little earlier than the one it booked.
    EarlyGrant,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::CheckThenAdd,
        Self::Wrap,
        Self::LostExpiry,
        Self::DoubleCharge,
        Self::LeakingDenial,
        Self::EarlyGrant,
    ];
}

/// The plain store with one bug.
pub struct PlantedStore {
    bug: Bug,
    clock: Arc<dyn Clock>,
    accounts: Mutex<HashMap<AccountKey, Account>>,
    /// Held from reading to writing, so that there is no second bug.
    whole: Mutex<()>,
}

impl PlantedStore {
    /// A store with this bug and this clock.
    pub fn new(bug: Bug, clock: Arc<dyn Clock>) -> Self {
        Self { bug, clock, accounts: Mutex::default(), whole: Mutex::default() }
    }

    fn read(&self, operation: &Operation, now: Timestamp) -> Vec<Account> {
        let too_early = if self.bug == Bug::LostExpiry { Span::from_millis(200) } else { Span::ZERO };
        load(&self.accounts.lock().unwrap(), &operation.charges, now.plus(too_early))
    }

    fn write(&self, operation: &Operation, accounts: Vec<Account>) {
        self.accounts
            .lock()
            .unwrap()
            .extend(operation.charges.iter().map(tollway_core::Charge::key).zip(accounts));
    }

    fn apply_one(&self, operation: &Operation) -> Outcome {
        let _held = (self.bug != Bug::CheckThenAdd).then(|| self.whole.lock().unwrap());
        let now = self.clock.now();
        let mut accounts = self.read(operation, now);
        let before = accounts.clone();
        if self.bug == Bug::CheckThenAdd {
            thread::yield_now();
        }
        let Applied { mut outcome, changed } = apply(operation, &mut accounts, now);
        match (self.bug, &mut outcome) {
            (Bug::Wrap, Outcome::Refused(_)) => return self.wrapped(operation, before, now),
            (Bug::DoubleCharge, Outcome::Decided(decision))
                if decision.is_granted() && !decision.repeated =>
            {
                apply(operation, &mut accounts, now);
            }
            (Bug::LeakingDenial, Outcome::Decided(decision)) if !decision.is_granted() => {
                self.leak(operation, now);
            }
            (
                Bug::EarlyGrant,
                Outcome::Decided(Decision { now, outcome: TakeOutcome::Granted(booking), .. }),
            ) if booking.at > *now => {
                booking.at = booking.at.minus(Span::from_micros(1));
            }
            _ => {}
        }
        if changed {
            self.write(operation, accounts);
        }
        outcome
    }

    /// Takes only the low bits of a cost that is too large, and reports a grant.
    fn wrapped(&self, operation: &Operation, mut accounts: Vec<Account>, now: Timestamp) -> Outcome {
        let low = |amount: &u64| amount & 0xffff;
        let mut wrapped = operation.clone();
        for charge in &mut wrapped.charges {
            let units = charge.policy.units().iter().map(|unit| unit.as_str());
            charge.cost = charge.policy.cost(units.zip(charge.cost().amounts().iter().map(low))).ok();
        }
        let applied = apply(&wrapped, &mut accounts, now);
        if applied.changed {
            self.write(operation, accounts);
        }
        applied.outcome
    }

    /// Debits each charge separately.
    fn leak(&self, operation: &Operation, now: Timestamp) {
        let Action::Take(_) = operation.action else { return };
        for charge in &operation.charges {
            let alone = Operation::one(charge.clone(), operation.action.clone());
            let mut accounts = self.read(&alone, now);
            if apply(&alone, &mut accounts, now).changed {
                self.write(&alone, accounts);
            }
        }
    }
}

impl Store for PlantedStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        Answer::now(Ok(batch.iter().map(|operation| self.apply_one(operation)).collect()))
    }
}
