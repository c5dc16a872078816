//! The figures of a decision in DynamoDB.

use super::round::Counted;
use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rounds::median;
use crate::stores::callers::Ran;

/// All per decision, except the first and the last.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    pub(super) middle_micros: f64,
    pub(super) slow_micros: f64,
    pub(super) writes: f64,
    pub(super) reads: f64,
    pub(super) failed_percent: f64,
}

/// Upper targets.
#[derive(Clone, Copy)]
pub(super) struct Targets {
    pub(super) slow_micros: Option<f64>,
    pub(super) writes: f64,
}

impl Figures {
    pub(super) fn of(ran: &Ran, before: &Counted, after: &Counted) -> Self {
        let takes = ran.takes.max(1) as f64;
        let latency = |percent: usize| {
            let rank = ran.latencies.get(ran.latencies.len() * percent / 100).copied();
            rank.unwrap_or_default().as_secs_f64() * 1e6
        };
        let writes = (after.writes - before.writes) as f64;
        Self {
            per_second: ran.takes as f64 / ran.wall.as_secs_f64(),
            middle_micros: latency(50),
            slow_micros: latency(99),
            writes: writes / takes,
            reads: (after.reads - before.reads) as f64 / takes,
            failed_percent: (after.failed - before.failed) as f64 * 100.0 / writes.max(1.0),
        }
    }

    /// The median of each figure.
    pub(super) fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        Self {
            per_second: of(|figures| figures.per_second),
            middle_micros: of(|figures| figures.middle_micros),
            slow_micros: of(|figures| figures.slow_micros),
            writes: of(|figures| figures.writes),
            reads: of(|figures| figures.reads),
            failed_percent: of(|figures| figures.failed_percent),
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
        let mut row = |unit, better, wanted: Option<f64>, figure: fn(&Self) -> f64| {
            let row = Row::new(case, rival, unit, better, figure(self), figure(theirs));
            report.push(row.wanted(wanted.map(Wanted::Ours)));
        };
        row("decisions/s", Higher, None, |figures| figures.per_second);
        row("us p50", Lower, None, |figures| figures.middle_micros);
        row("us p99", Lower, wanted.slow_micros, |figures| figures.slow_micros);
        row("writes", Lower, Some(wanted.writes), |figures| figures.writes);
        row("reads", Lower, None, |figures| figures.reads);
        row("failed conditions, % of writes", Lower, None, |figures| figures.failed_percent);
    }
}
