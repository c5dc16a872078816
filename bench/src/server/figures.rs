//! The figures of a request.

use std::collections::HashMap;
use std::time::Duration;

use super::load::Ran;
use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rounds::median;

#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    /// Of the server, per request.
    pub(super) cpu_micros: f64,
    pub(super) slow_micros: f64,
    /// Cores that the server kept busy.
    pub(super) cores: f64,
    /// Effective threads: processor time of all threads divided by that of the busiest.
    pub(super) threads: f64,
}

/// Work counts as spread over two cores if the busiest thread has at most two thirds of it.
const WANTED_THREADS: f64 = 1.5;

impl Figures {
    pub(super) fn of(ran: &Ran, cpu: Duration, threads: f64) -> Self {
        let (requests, cpu) = (ran.requests.max(1) as f64, cpu.as_secs_f64());
        Self {
            per_second: ran.per_second,
            cpu_micros: cpu * 1e6 / requests,
            slow_micros: ran.slow.as_secs_f64() * 1e6,
            cores: cpu * ran.per_second / requests,
            threads,
        }
    }

    /// The median of each figure, which ignores disturbed rounds.
    pub(super) fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        Self {
            per_second: of(|figures| figures.per_second),
            cpu_micros: of(|figures| figures.cpu_micros),
            slow_micros: of(|figures| figures.slow_micros),
            cores: of(|figures| figures.cores),
            threads: of(|figures| figures.threads),
        }
    }

    /// Rows that compare Tollway with a rival, with a target for processor time.
    pub(super) fn compare(
        &self,
        theirs: &Self,
        case: &str,
        rival: &str,
        wanted: Option<f64>,
        report: &mut BenchReport,
    ) {
        use Better::{Higher, Lower};
        let mut row = |unit, better, wanted, figure: fn(&Self) -> f64| {
            report.push(Row::new(case, rival, unit, better, figure(self), figure(theirs)).wanted(wanted));
        };
        row("requests/s", Higher, None, |figures| figures.per_second);
        row("us CPU of server", Lower, wanted.map(Wanted::Ratio), |figures| figures.cpu_micros);
        row("us p99", Lower, None, |figures| figures.slow_micros);
        row("cores", Higher, None, |figures| figures.cores);
        row("threads", Higher, Some(Wanted::Ours(WANTED_THREADS)), |figures| figures.threads);
    }
}

/// Effective threads between two samples of ticks per thread.
pub(super) fn threads_at_work(before: &HashMap<u32, u64>, after: &HashMap<u32, u64>) -> f64 {
    let worked = |(thread, ticks): (&u32, &u64)| ticks - before.get(thread).copied().unwrap_or(0).min(*ticks);
    let each: Vec<u64> = after.iter().map(worked).collect();
    each.iter().sum::<u64>() as f64 / each.iter().copied().max().unwrap_or(0).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_share_the_work_evenly_count_whole() {
        let before = HashMap::from([(1, 10), (2, 10), (3, 10)]);
        assert_eq!(threads_at_work(&before, &HashMap::from([(1, 10), (2, 60), (3, 60)])), 2.0);
        assert_eq!(threads_at_work(&before, &HashMap::from([(1, 10), (2, 110), (4, 50)])), 1.5);
        assert_eq!(threads_at_work(&before, &before), 0.0);
    }
}
