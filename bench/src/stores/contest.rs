//! Ours and its rivals, round after round in turn.

use anyhow::{Context, Result};

use super::callers::Stage;
use super::figures::{Figures, Targets};
use super::round::{Effort, Server};
use crate::report::{Report, Wanted};

type Play = fn(&dyn Server, &Stage, &[&str], Effort) -> Result<Figures>;

/// Someone who takes part.
pub(super) struct Part {
    name: &'static str,
    /// Which commands it sends. Those that a script calls are not sent.
    sends: &'static [&'static str],
    play: Play,
    /// What ours should reach against it.
    wanted: Targets,
}

impl Part {
    pub(super) fn new(name: &'static str, sends: &'static [&'static str], play: Play) -> Self {
        Self { name, sends, play, wanted: Targets::default() }
    }

    /// Ours should make at least this much of its decisions a second.
    pub(super) fn per_second(mut self, ratio: f64) -> Self {
        self.wanted.per_second = Some(Wanted::Ratio(ratio));
        self
    }

    /// Ours should send at most so many commands for a decision, whatever it sends.
    pub(super) fn commands(mut self, most: f64) -> Self {
        self.wanted.commands = Some(Wanted::Ours(most));
        self
    }
}

/// The first is ours; it is shown beside each of the others.
pub(super) fn contest(
    server: &dyn Server,
    stage: &Stage,
    parts: &[Part],
    effort: Effort,
    case: &str,
    report: &mut Report,
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
