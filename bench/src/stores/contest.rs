//! Runs Tollway and its rivals in alternating rounds.

use anyhow::{Context, Result};

use super::callers::Stage;
use super::figures::{Figures, Targets};
use super::round::{Effort, Server};
use crate::report::{BenchReport, Wanted};

type Play = fn(&dyn Server, &Stage, &[&str], Effort) -> Result<Figures>;

/// A participant.
pub(super) struct Part {
    name: &'static str,
    /// The commands that it sends, without those inside scripts.
    sends: &'static [&'static str],
    play: Play,
    /// Tollway's target against it.
    wanted: Targets,
}

impl Part {
    pub(super) fn new(name: &'static str, sends: &'static [&'static str], play: Play) -> Self {
        Self { name, sends, play, wanted: Targets::default() }
    }

    /// Sets a target relative to its decisions a second.
    pub(super) fn per_second(mut self, ratio: f64) -> Self {
        self.wanted.per_second = Some(Wanted::Ratio(ratio));
        self
    }

    /// Sets a target for the server's microseconds per decision of Tollway.
    pub(super) fn server_micros(mut self, most: f64) -> Self {
        self.wanted.server = Some(Wanted::Ours(most));
        self
    }

    /// Sets a target for Tollway's commands per decision.
    pub(super) fn commands(mut self, most: f64) -> Self {
        self.wanted.commands = Some(Wanted::Ours(most));
        self
    }
}

/// The first participant is Tollway; rows compare it with each of the others.
pub(super) fn contest(
    server: &dyn Server,
    stage: &Stage,
    parts: &[Part],
    effort: Effort,
    case: &str,
    report: &mut BenchReport,
) -> Result<()> {
    let mut figures = vec![Vec::new(); parts.len()];
    for round in 1..=effort.rounds {
        for (part, figures) in parts.iter().zip(&mut figures) {
            eprintln!("{case}, round {round}: {}", part.name);
            let played = (part.play)(server, stage, part.sends, effort);
            figures.push(played.with_context(|| part.name)?);
        }
    }
    let medians: Vec<Figures> = figures.iter().map(|rounds| Figures::median(rounds)).collect();
    for (part, theirs) in parts.iter().zip(&medians).skip(1) {
        medians[0].compare(theirs, case, part.name, part.wanted, report);
    }
    Ok(())
}
