//! The conformance suite for stores: named scenarios, random sequences against the model, and threads.

mod across_slots;
mod concurrency;
mod generator;
mod lab;
mod profile;
mod scenarios;
mod sequences;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use across_slots::rounds_across_slots;
pub use concurrency::rounds;
pub use profile::Profile;
pub use scenarios::scenarios;
pub use sequences::sequences;

use crate::Rig;

/// How much to test.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The seed of the first random sequence.
    pub seed: u64,
    /// How many sequences.
    pub sequences: u64,
    /// How many rounds of threads for each kind of limit.
    pub rounds: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { seed: 1, sequences: 2_000, rounds: 8 }
    }
}

/// What was tested, without a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Named scenarios.
    pub scenarios: u64,
    /// Random sequences.
    pub sequences: u64,
    /// Their operations, each compared with the model.
    pub operations: u64,
    /// Operations that were skipped, because two answers would be correct ([`Model::unclear`](crate::Model::unclear)).
    pub left_out: u64,
    /// Rounds of threads.
    pub rounds: u64,
    /// Their calls, each checked by the history checker.
    pub calls: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenarios, sequences, operations, left_out, rounds, calls } = self;
        write!(
            f,
            "{scenarios} scenarios, {sequences} sequences of {operations} operations without a mismatch "
        )?;
        let permille = left_out * 1_000 / (operations + left_out).max(1);
        write!(
            f,
            "({}.{} % more were skipped, because two answers are correct), ",
            permille / 10,
            permille % 10
        )?;
        write!(f, "{rounds} rounds of {calls} calls without one over or under")
    }
}

/// A failure of a store.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The scenario, sequence or round.
    pub scenario: String,
    /// What was observed.
    pub message: String,
}

tollway_core::debug_as_display!(Failure);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.scenario, self.message)
    }
}

impl std::error::Error for Failure {}

/// Runs the whole suite.
pub fn run(rig: &dyn Rig) -> Result<Report, Failure> {
    run_with(rig, Effort::default())
}

/// Runs the whole suite, with this effort.
pub fn run_with(rig: &dyn Rig, effort: Effort) -> Result<Report, Failure> {
    let scenarios = scenarios(rig)?.scenarios;
    let random = sequences(rig, effort.seed, effort.sequences)?;
    let of_one = rounds(rig, effort.rounds)?;
    let across = match rig.profile() {
        Profile::Atomic => Report::default(),
        Profile::Undo => rounds_across_slots(rig, effort.rounds)?,
    };
    let (rounds, calls) = (of_one.rounds + across.rounds, of_one.calls + across.calls);
    Ok(Report { scenarios, rounds, calls, ..random })
}

/// Runs one part; a panic in it is its failure.
fn attempt<T>(scenario: &str, part: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let message = text.unwrap_or_else(|| "it panicked without a message".to_owned());
        Failure { scenario: scenario.to_owned(), message }
    })
}
