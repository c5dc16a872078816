//! The conformance suite for engines: named scenarios, and random sequences against a model.
//!
//! ```
//! use tollway_pipeline::{SqliteEngine, conformance};
//!
//! let mut folders = Vec::new();
//! let report = conformance::run(conformance::Effort { seed: 1, sequences: 2, steps: 50 }, || {
//!     let folder = tempfile::tempdir().unwrap();
//!     let engine = SqliteEngine::open(&folder.path().join("jobs.db")).unwrap();
//!     folders.push(folder);
//!     Box::new(engine)
//! });
//! assert!(report.unwrap().scenarios > 20);
//! ```
//!
//! A scenario about something that the engine's capabilities exclude is skipped. Times are invented, so an engine must use
//! the time it is given.
// A suite fails by panicking, with a message for the reader.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod lab;
mod model;
mod names;
mod random;
mod scenarios;
mod sequences;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::lab::Lab;
pub use self::names::second_process_is_found;
use crate::{Capabilities, Engine};

/// How much to test.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The seed of the first random sequence.
    pub seed: u64,
    /// How many sequences.
    pub sequences: u64,
    /// How many operations each.
    pub steps: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { seed: 1, sequences: 20, steps: 300 }
    }
}

/// What was tested, without a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConformanceReport {
    /// Named scenarios.
    pub scenarios: u64,
    /// Scenarios that this engine's capabilities exclude.
    pub skipped: u64,
    /// Operations of random sequences, each compared with the model.
    pub operations: u64,
}

/// A failure of an engine.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The scenario or sequence.
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

/// A named scenario.
struct Scenario {
    name: &'static str,
    /// What the engine must be able to do.
    needs: fn(&Capabilities) -> bool,
    run: fn(&Lab),
}

/// Runs the whole suite. `make` makes an engine without jobs, for each scenario and sequence.
pub fn run(effort: Effort, mut make: impl FnMut() -> Box<dyn Engine>) -> Result<ConformanceReport, Failure> {
    let mut report = ConformanceReport::default();
    for scenario in scenarios::all() {
        let lab = Lab::new(make());
        if !(scenario.needs)(&lab.engine.capabilities()) {
            report.skipped += 1;
            continue;
        }
        attempt(scenario.name, || (scenario.run)(&lab))?;
        report.scenarios += 1;
    }
    let capabilities = make().capabilities();
    if sequences::suits(&capabilities) {
        for seed in effort.seed..effort.seed + effort.sequences {
            let lab = Lab::new(make());
            attempt(&format!("sequence of seed {seed}"), || sequences::run(&lab, seed, effort.steps))?;
            report.operations += effort.steps;
        }
    }
    Ok(report)
}

/// Runs one part; a panic in it is its failure.
fn attempt(scenario: &str, part: impl FnOnce()) -> Result<(), Failure> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let message = text.unwrap_or_else(|| "it panicked without a message".to_owned());
        Failure { scenario: scenario.to_owned(), message }
    })
}
