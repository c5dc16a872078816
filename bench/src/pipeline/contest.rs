//! Runs Tollway and its rivals in alternating rounds, each round as many jobs as take about the same time.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rounds::median;

/// How often the end of a job is committed on its way: once for each stage.
const COMMITS: f64 = 2.0;

/// The size of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) rounds: usize,
    pub(super) round: Duration,
}

/// A queue under test.
pub(super) trait Queue {
    /// Enqueues the jobs on an empty database, for which there is an empty folder, and returns how long it took to get them
    /// through both stages.
    fn drain(&self, folder: &Path, workers: u32, jobs: u64) -> Result<Duration>;
}

/// A participant.
pub(super) struct Part<'a> {
    name: &'static str,
    queue: Box<dyn Queue + 'a>,
    /// Tollway's target, relative to its jobs a second.
    wanted: Option<f64>,
}

impl<'a> Part<'a> {
    pub(super) fn new(name: &'static str, queue: impl Queue + 'a) -> Self {
        Self { name, queue: Box::new(queue), wanted: None }
    }

    pub(super) fn wanted(self, ratio: f64) -> Self {
        Self { wanted: Some(ratio), ..self }
    }

    /// Jobs a second.
    fn play(&self, workers: u32, jobs: u64) -> Result<f64> {
        let folder = tempfile::Builder::new().prefix("tollway-bench-").tempdir()?;
        let took = self.queue.drain(folder.path(), workers, jobs).context(self.name)?;
        Ok(jobs as f64 / took.as_secs_f64())
    }
}

/// Measures how often a second something happens, for this long.
pub(super) type Floor = fn(Duration) -> Result<f64>;

/// The first participant is Tollway; rows compare it with each of the others, and its commits with the floor.
pub(super) fn contest(
    case: &str,
    workers: u32,
    parts: &[Part<'_>],
    floor: Option<Floor>,
    effort: Effort,
    report: &mut BenchReport,
) -> Result<()> {
    // The trial also warms up.
    let trial = 50 + 10 * u64::from(workers);
    let sizes = parts.iter().map(|part| {
        let jobs = part.play(workers, trial)? * effort.round.as_secs_f64();
        Ok((jobs as u64).max(trial))
    });
    let sizes: Vec<u64> = sizes.collect::<Result<_>>()?;
    let mut figures = vec![Vec::new(); parts.len()];
    let mut floors = Vec::new();
    for round in 1..=effort.rounds {
        let mut order: Vec<_> = parts.iter().zip(&sizes).zip(&mut figures).collect();
        // In alternating order, so that none always follows the same one.
        if round % 2 == 0 {
            order.reverse();
        }
        for ((part, &jobs), figures) in order {
            let per_second = part.play(workers, jobs)?;
            eprintln!("{case}, round {round}: {}, {per_second:.0} jobs/s of {jobs}", part.name);
            figures.push(per_second);
        }
        if let Some(floor) = floor {
            floors.push(floor(effort.round)?);
        }
    }
    let ours = median(figures[0].iter().copied());
    for (part, rounds) in parts.iter().zip(&figures).skip(1) {
        let row = Row::new(case, part.name, "jobs/s", Better::Higher, ours, median(rounds.iter().copied()));
        report.push(row.wanted(part.wanted.map(Wanted::Ratio)));
    }
    if !floors.is_empty() {
        let floor = median(floors);
        report.push(Row::new(
            case,
            "fdatasync in a loop",
            "commits/s",
            Better::Higher,
            ours * COMMITS,
            floor,
        ));
    }
    Ok(())
}
