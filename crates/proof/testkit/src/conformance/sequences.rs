//! Random sequences of operations, each answer compared with the model's.

use std::fmt::Write;
use std::sync::Arc;

use tollway_core::{Operation, Outcome, Store, Timestamp};

use super::generator::Generator;
use super::lab::{comparable, count_wait_from_account};
use super::{Failure, Report, attempt};
use crate::{ManualClock, Model, PlainStore, Rig, wait_for};

/// How long a sequence is.
const OPERATIONS: u64 = 60;

/// Runs `count` random sequences on the rig's store, the first one with `seed`, the next with `seed + 1`, and so on.
///
/// A failure names its seed and lists the operations up to it; `sequences(rig, seed, 1)` runs it again.
pub fn sequences(rig: &dyn Rig, seed: u64, count: u64) -> Result<Report, Failure> {
    let mut report = Report::default();
    for seed in seed..seed + count {
        let name = format!("the random sequence of seed {seed}");
        let compared = attempt(&name, || Sequence::new(rig, seed).run())?;
        report.operations += compared;
        report.left_out += OPERATIONS - compared;
        report.sequences += 1;
    }
    Ok(report)
}

struct Sequence<'r> {
    rig: &'r dyn Rig,
    store: Arc<dyn Store>,
    model: Model,
    /// The engine itself, with its invariants checked: tells a fault of the engine from one of the store.
    engine: PlainStore,
    engine_clock: Arc<ManualClock>,
    generator: Generator,
    steps: String,
}

impl<'r> Sequence<'r> {
    fn new(rig: &'r dyn Rig, seed: u64) -> Self {
        let engine_clock = Arc::new(ManualClock::default());
        Self {
            rig,
            store: rig.store(),
            model: Model::new(),
            engine: PlainStore::checked(engine_clock.clone()),
            engine_clock,
            generator: Generator::new(seed, rig.profile()),
            steps: String::new(),
        }
    }

    /// Returns the number of compared operations.
    fn run(mut self) -> u64 {
        let mut now = self.generator.start();
        let mut compared = 0;
        for _ in 0..OPERATIONS {
            now = self.generator.next_time(now);
            let operation = self.generator.next_operation();
            if self.model.unclear(&operation, now) || self.rig.profile().leaves_open(&operation) {
                continue;
            }
            let outcome = self.step(&operation, now);
            self.generator.learn(&operation, &outcome);
            compared += 1;
        }
        compared
    }

    fn step(&mut self, operation: &Operation, now: Timestamp) -> Outcome {
        self.rig.set_time(now);
        self.engine_clock.set(now);
        let _ = write!(self.steps, "\n{}: {operation}", now.as_micros());
        let expected = comparable(self.model.apply(operation, now));
        let answer = |store: &dyn Store| {
            let mut outcomes =
                wait_for(store.apply(std::slice::from_ref(operation))).expect("the store answers");
            comparable(outcomes.remove(0))
        };
        let steps = &self.steps;
        let checked = attempt("", || answer(&self.engine));
        let checked = checked.unwrap_or_else(|broken| panic!("the engine: {}{steps}", broken.message));
        assert_eq!(checked, expected, "left the engine, right the model{steps}");
        let mut outcome = answer(&*self.store);
        count_wait_from_account(&mut outcome, &expected, operation, now);
        let compared = self.rig.profile().as_expected(outcome.clone(), &expected, operation);
        assert_eq!(compared, expected, "left the store, right the model{steps}");
        let _ = write!(self.steps, "\n  -> {outcome:?}");
        outcome
    }
}
