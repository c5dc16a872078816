//! The report as text, with commands to try next.

use std::env;
use std::path::Path;

use super::figures::Figure;
use super::{Alone, DemoReport};
use crate::demo::worker::AfterRefusal;
use crate::humanize::counted;
use crate::output::{FAINT, STRONG, WARN};

/// Printed if a noticeable part of the quota is unused.
const TOO_SLOW: &str = "\
The workers did not use the whole quota: there are too few for this limit, or
the machine was busy.";

impl DemoReport {
    /// The lines of the report.
    pub(in crate::demo) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.title(), String::new()];
        match &self.alone {
            None => lines.extend(self.figures().iter().map(Figure::line)),
            Some(alone) => lines.extend(self.table(alone)),
        }
        if !self.with_tollway.vendor.used_quota() {
            lines.extend([String::new(), format!("{WARN}{TOO_SLOW}{WARN:#}")]);
        }
        lines.extend([String::new(), "Try next:".to_owned()]);
        lines.extend(next_steps(self.alone.is_some()));
        lines
    }

    fn title(&self) -> String {
        let early = if self.interrupted { ", ended early" } else { "" };
        let (jobs, workers) = (counted(self.jobs, "jobs"), counted(self.workers, "workers"));
        format!("{STRONG}{jobs} in two stages, {workers}{early}{STRONG:#}")
    }

    /// The figures of both sides.
    fn table(&self, alone: &Alone) -> Vec<String> {
        let without = self.figures_alone(alone);
        let row = |with: Figure| {
            let other = without.iter().find(|other| other.what == with.what);
            let (value, style) = other.map_or(("-", FAINT), |other| (other.value.as_str(), other.style));
            format!("{} {style}{value:>14}{style:#}", with.cells(14))
        };
        let title = format!("  {:<27} {STRONG}{:>14} {:>14}{STRONG:#}", "", "with Tollway", "alone");
        let mut lines = vec![title];
        lines.extend(self.figures().into_iter().map(row));
        lines.push(String::new());
        lines.extend(alone.explained().into_iter().map(|line| format!("{FAINT}{line}{FAINT:#}")));
        lines
    }
}

impl Alone {
    fn explained(&self) -> [&'static str; 3] {
        let refusal = match self.after_refusal {
            AfterRefusal::AtOnce => {
                "Alone, a worker calls again at once after a refusal. The job of the killed"
            }
            AfterRefusal::RetryAfter => {
                "Alone, a worker calls again when Retry-After is over. The job of the killed"
            }
        };
        [
            refusal,
            "worker is lost, and so are jobs that fail three times: nothing keeps them. With",
            "Tollway a file keeps them, for another worker and for `dead redrive`.",
        ]
    }
}

impl Figure {
    fn cells(&self, width: usize) -> String {
        let Self { what, value, style, .. } = self;
        format!("  {what:<27} {style}{value:>width$}{style:#}")
    }

    fn line(&self) -> String {
        let (cells, aside) = (self.cells(7), &self.aside);
        if aside.is_empty() { cells } else { format!("{cells}   {FAINT}{aside}{FAINT:#}") }
    }
}

fn next_steps(was_compared: bool) -> Vec<String> {
    let tollway = program();
    let contrast = match was_compared {
        false => ("the same beside workers without Tollway", "demo --without"),
        true => ("the same beside workers that obey the vendor's Retry-After", "demo --without=retry-after"),
    };
    let steps = [
        contrast,
        (
            "take from a limit in a shell; the third take in a minute waits",
            "take api --limit \"2 requests / minute\"",
        ),
        ("run your own jobs like these", "pipeline --help"),
        ("how long a backlog takes", "plan --items 1M --calls 2 --limit \"200 requests / minute\""),
    ];
    let step = |(why, command)| [format!("  {FAINT}# {why}{FAINT:#}"), format!("  {tollway} {command}")];
    steps.into_iter().flat_map(step).collect()
}

/// The command as it was started, so that the examples can be typed; only its name if the path is long.
fn program() -> String {
    let started_as = env::args().next().unwrap_or_default();
    let is_short = !started_as.is_empty() && started_as.len() <= 24 && Path::new(&started_as).is_relative();
    if is_short { started_as } else { "tollway".to_owned() }
}
