//! What was moved.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollway::Span;
use tollway::core::Name;
use tollway_pipeline::{EngineUrl, StageCounts, State};

use super::transfer::left;
use crate::failure::{Exit, Failure};
use crate::humanize::{self, count, counted};
use crate::output::{GOOD, Output};
use crate::stopwatch::Stopwatch;

/// How a move ended.
pub(super) enum End {
    Complete,
    /// Jobs still run, or wait for such jobs.
    TimedOut {
        running: u64,
        held: u64,
    },
    Interrupted(Exit),
}

/// Counts of moved jobs.
#[derive(Clone)]
pub(super) struct MigrationReport {
    target: String,
    stopwatch: Stopwatch,
    took: Span,
    moved: BTreeMap<(Name, State), u64>,
    /// Keys that the new engine had already.
    known: u64,
    /// Jobs of an interrupted move.
    pub(super) recovered: u64,
}

impl MigrationReport {
    pub(super) fn new(target: &str) -> Self {
        let (moved, target) = (BTreeMap::new(), target.to_owned());
        Self { target, stopwatch: Stopwatch::start(), took: Span::ZERO, moved, known: 0, recovered: 0 }
    }

    /// The same, with the time that it took until now.
    pub(super) fn ended(self) -> Self {
        Self { took: self.stopwatch.elapsed(), ..self }
    }

    pub(super) fn count(&mut self, stage: &Name, state: State, new: bool) {
        match new {
            true => *self.moved.entry((stage.clone(), state)).or_default() += 1,
            false => self.known += 1,
        }
    }

    fn total(&self) -> u64 {
        self.moved.values().sum()
    }

    /// A failure in between, with what was done.
    pub(super) fn failed(&self, failure: &Failure) -> Failure {
        let message = format!("{}; {} moved so far", failure.message(), counted(self.total(), "jobs"));
        Failure::new(failure.exit(), message)
            .advise("run the same command again: it goes on, and moves no job twice")
    }

    pub(super) fn print(&self, end: &End, output: &Output) -> Result<Exit, Failure> {
        let exit = match end {
            End::Complete => Exit::DONE,
            End::TimedOut { .. } => Exit::DENIED,
            End::Interrupted(exit) => *exit,
        };
        if output.is_json() {
            output.json(&self.to_json(end))?;
            return Ok(exit);
        }
        let (jobs, took) = (counted(self.total(), "jobs"), humanize::span(self.took));
        output.line(format_args!("{GOOD}moved {jobs}{GOOD:#} to {} in {took}", self.target))?;
        for ((stage, state), moved) in &self.moved {
            output.line(format_args!("  {stage}: {} {state}", count(*moved)))?;
        }
        if self.known > 0 {
            output.line(format_args!("{} were there already", counted(self.known, "jobs")))?;
        }
        // What follows is written elsewhere, and comes after it.
        output.flush()?;
        match end {
            End::Complete => {
                output.note("the old engine is empty and stays paused");
                output.note(format_args!("next: set engine = \"{}\" in the config", self.target));
                Ok(exit)
            }
            End::TimedOut { running, held } => {
                let held = if *held > 0 {
                    format!(", {} wait for their groups", count(*held))
                } else {
                    String::new()
                };
                let message = format!("{} still running in the old engine{held}", counted(*running, "jobs"));
                Err(Failure::new(exit, message).advise("run the same command again when they have ended"))
            }
            End::Interrupted(_) => {
                Err(Failure::new(exit, "interrupted; the rest is in the old engine, paused")
                    .advise("run the same command again: it goes on"))
            }
        }
    }

    fn to_json(&self, end: &End) -> Value {
        let row = |((stage, state), jobs): (&(Name, State), &u64)| json!({ "stage": stage.as_str(), "state": state.as_str(), "jobs": jobs });
        let running = match end {
            End::TimedOut { running, .. } => *running,
            _ => 0,
        };
        json!({
            "to": self.target,
            "complete": matches!(end, End::Complete),
            "moved": self.total(),
            "known": self.known,
            "recovered": self.recovered,
            "running": running,
            "stages": self.moved.iter().map(row).collect::<Vec<_>>(),
            "seconds": self.took.as_micros() as f64 / 1e6,
        })
    }
}

/// What a move would do.
pub(super) fn print_dry(
    counts: &[StageCounts],
    target: &EngineUrl,
    output: &Output,
) -> Result<Exit, Failure> {
    let total: u64 = counts.iter().map(left).sum();
    if output.is_json() {
        let stage = |counts: &StageCounts| json!({ "stage": counts.stage.as_str(), "jobs": left(counts) });
        let stages: Vec<Value> = counts.iter().map(stage).collect();
        output
            .json(&json!({ "to": target.to_string(), "dry_run": true, "jobs": total, "stages": stages }))?;
        return Ok(Exit::DONE);
    }
    output.line(format_args!("would move {} to {target}", counted(total, "jobs")))?;
    for counts in counts.iter().filter(|counts| left(counts) > 0) {
        let states = State::ALL.into_iter().filter(|state| !state.has_left() && counts.of(*state) > 0);
        let states: Vec<String> =
            states.map(|state| format!("{} {state}", count(counts.of(state)))).collect();
        output.line(format_args!("  {}: {}", counts.stage, states.join(", ")))?;
    }
    Ok(Exit::DONE)
}
