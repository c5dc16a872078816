//! Runs Tollway and its rivals under the same load, in alternating rounds.

use std::time::Duration;

use anyhow::{Context, Result};

use super::figures::{Figures, threads_at_work};
use super::load::Load;
use crate::processor::{threads_of, time_of};
use crate::report::BenchReport;

/// The size of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) rounds: usize,
    /// The warm-up.
    pub(super) warm_up: Duration,
    pub(super) round: Duration,
}

/// A participant.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) pid: u32,
    pub(super) load: Box<dyn Load>,
    /// Tollway's target, relative to its processor time.
    pub(super) wanted: Option<f64>,
}

/// The first participant is Tollway; rows compare it with each of the others. Returns Tollway's result.
pub(super) fn contest(
    case: &str,
    parts: &[Part],
    effort: Effort,
    report: &mut BenchReport,
) -> Result<Figures> {
    for part in parts {
        part.load.run(effort.warm_up).with_context(|| format!("{case}, {}", part.name))?;
    }
    let mut figures = vec![Vec::new(); parts.len()];
    for round in 1..=effort.rounds {
        let mut order: Vec<_> = parts.iter().zip(&mut figures).collect();
        // In alternating order, so that none always follows the same one.
        if round % 2 == 0 {
            order.reverse();
        }
        for (part, figures) in order {
            let played = play(part, effort.round).with_context(|| format!("{case}, {}", part.name))?;
            eprintln!("{case}, round {round}: {}, {:.2} us", part.name, played.cpu_micros);
            figures.push(played);
        }
    }
    let medians: Vec<Figures> = figures.iter().map(|rounds| Figures::median(rounds)).collect();
    for (part, theirs) in parts.iter().zip(&medians).skip(1) {
        medians[0].compare(theirs, case, part.name, part.wanted, report);
    }
    Ok(medians[0])
}

fn play(part: &Part, lasts: Duration) -> Result<Figures> {
    let (cpu, threads) = (time_of(part.pid)?, threads_of(part.pid)?);
    let ran = part.load.run(lasts)?;
    let cpu = time_of(part.pid)?.saturating_sub(cpu);
    Ok(Figures::of(&ran, cpu, threads_at_work(&threads, &threads_of(part.pid)?)))
}
