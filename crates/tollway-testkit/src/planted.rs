//! Stores with one planted bug each. The suite must catch every one of them, or it proves nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;

use tollway_core::{
    Answer, Applied, Clock, Decision, Line, LineKey, Operation, Outcome, Span, Store, Timestamp, Verb, apply,
};

use crate::plain::{key_of, load};

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Reads the lines, lets go of them, decides, writes: two takes read the same count and both are granted.
    CheckThenAdd,
    /// Counts costs in 16 bits: a cost of 65,537 takes one unit.
    Wrap,
    /// Forgets a line a moment before it is as good as new.
    LostExpiry,
    /// Applies a granted take twice, as a retry without an id would.
    DoubleCharge,
    /// Keeps what a denied take over several parties took from those that had room.
    LeakingDenial,
    /// Answers a place in line a little earlier than it booked.
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
    lines: Mutex<HashMap<LineKey, Line>>,
    /// Held from reading to writing, so that there is no second bug.
    whole: Mutex<()>,
}

impl PlantedStore {
    /// A store with this bug and this clock.
    pub fn new(bug: Bug, clock: Arc<dyn Clock>) -> Self {
        Self { bug, clock, lines: Mutex::default(), whole: Mutex::default() }
    }

    fn read(&self, operation: &Operation<'_>, now: Timestamp) -> Vec<Line> {
        let too_early = if self.bug == Bug::LostExpiry { Span::from_millis(200) } else { Span::ZERO };
        load(&self.lines.lock().unwrap(), operation.parties, now.plus(too_early))
    }

    fn write(&self, operation: &Operation<'_>, lines: Vec<Line>) {
        self.lines.lock().unwrap().extend(operation.parties.iter().map(key_of).zip(lines));
    }

    fn apply_one(&self, operation: &Operation<'_>) -> Outcome {
        let _held = (self.bug != Bug::CheckThenAdd).then(|| self.whole.lock().unwrap());
        let now = self.clock.now();
        let mut lines = self.read(operation, now);
        let before = lines.clone();
        if self.bug == Bug::CheckThenAdd {
            thread::yield_now();
        }
        let Applied { mut outcome, changed } = apply(operation, &mut lines, now);
        match (self.bug, &mut outcome) {
            (Bug::Wrap, Outcome::Refused(_)) => return self.wrapped(operation, before, now),
            (Bug::DoubleCharge, Outcome::Decided(Decision::Granted(grant))) if !grant.repeated => {
                apply(operation, &mut lines, now);
            }
            (Bug::LeakingDenial, Outcome::Decided(Decision::Denied(_))) => self.leak(operation, now),
            (Bug::EarlyGrant, Outcome::Decided(Decision::Granted(grant))) if grant.at > grant.now => {
                grant.at = grant.at.minus(Span::from_micros(1));
            }
            _ => {}
        }
        if changed {
            self.write(operation, lines);
        }
        outcome
    }

    /// Takes the low bits of a cost that is too large, and says that all of it was granted.
    fn wrapped(&self, operation: &Operation<'_>, mut lines: Vec<Line>, now: Timestamp) -> Outcome {
        let low = |amount: &u64| amount & 0xffff;
        let costs: Option<Vec<_>> = operation
            .parties
            .iter()
            .map(|party| {
                let units = party.policy.units().iter().map(|unit| unit.as_str());
                party.policy.cost(units.zip(party.cost.amounts().iter().map(low))).ok()
            })
            .collect();
        let costs = costs.unwrap_or_default();
        let parties: Vec<_> = operation
            .parties
            .iter()
            .zip(&costs)
            .map(|(party, cost)| tollway_core::Party { cost, ..*party })
            .collect();
        let applied = apply(&Operation { parties: &parties, verb: operation.verb }, &mut lines, now);
        if applied.changed {
            self.write(operation, lines);
        }
        applied.outcome
    }

    /// Takes from each party by itself.
    fn leak(&self, operation: &Operation<'_>, now: Timestamp) {
        let Verb::Take(_) = operation.verb else { return };
        for party in operation.parties {
            let alone = Operation { parties: std::slice::from_ref(party), verb: operation.verb };
            let mut lines = self.read(&alone, now);
            if apply(&alone, &mut lines, now).changed {
                self.write(&alone, lines);
            }
        }
    }
}

impl Store for PlantedStore {
    fn apply(&self, batch: &[Operation<'_>]) -> Answer {
        Answer::now(Ok(batch.iter().map(|operation| self.apply_one(operation)).collect()))
    }
}
