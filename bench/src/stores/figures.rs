//! The figures of a decision.

use std::time::Duration;

use super::callers::Ran;
use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rounds::median;

/// All per decision, except the first.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    /// Of this process and the server.
    pub(super) cpu_micros: f64,
    /// Of the server.
    pub(super) server_micros: f64,
    pub(super) middle_micros: f64,
    pub(super) slow_micros: f64,
    /// `None` if the server does not count them.
    pub(super) commands: Option<f64>,
}

/// The target against a rival.
#[derive(Clone, Copy, Default)]
pub(super) struct Targets {
    pub(super) per_second: Option<Wanted>,
    pub(super) server: Option<Wanted>,
    pub(super) commands: Option<Wanted>,
}

impl Figures {
    pub(super) fn of(ran: &Ran, server: Duration, commands: Option<u64>) -> Self {
        let takes = ran.takes.max(1) as f64;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let rank = |percent: usize| ran.latencies.get(ran.latencies.len() * percent / 100);
        let latency = |percent| micros(rank(percent).copied().unwrap_or_default());
        Self {
            per_second: ran.takes as f64 / ran.wall.as_secs_f64(),
            cpu_micros: micros(ran.cpu + server) / takes,
            server_micros: micros(server) / takes,
            middle_micros: latency(50),
            slow_micros: latency(99),
            commands: commands.map(|commands| commands as f64 / takes),
        }
    }

    /// The median of each figure, which ignores disturbed rounds.
    pub(super) fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        Self {
            per_second: of(|figures| figures.per_second),
            cpu_micros: of(|figures| figures.cpu_micros),
            server_micros: of(|figures| figures.server_micros),
            middle_micros: of(|figures| figures.middle_micros),
            slow_micros: of(|figures| figures.slow_micros),
            commands: rounds[0].commands.map(|_| of(|figures| figures.commands.unwrap_or(0.0))),
        }
    }

    /// Rows that compare Tollway with a rival.
    pub(super) fn compare(
        &self,
        theirs: &Self,
        case: &str,
        rival: &str,
        wanted: Targets,
        report: &mut BenchReport,
    ) {
        use Better::{Higher, Lower};
        let mut row = |unit, better, wanted, figure: fn(&Self) -> f64| {
            report.push(Row::new(case, rival, unit, better, figure(self), figure(theirs)).wanted(wanted));
        };
        row("decisions/s", Higher, wanted.per_second, |figures| figures.per_second);
        row("us CPU", Lower, None, |figures| figures.cpu_micros);
        row("us CPU of server", Lower, wanted.server, |figures| figures.server_micros);
        row("us p50", Lower, None, |figures| figures.middle_micros);
        row("us p99", Lower, None, |figures| figures.slow_micros);
        if self.commands.is_some() {
            row("commands", Lower, wanted.commands, |figures| figures.commands.unwrap_or(0.0));
        }
    }
}
