//! Rounds: the time of a take of a row.

use std::sync::Barrier;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::row::{Row, Taker, Time};

/// Takes of one thread in one round.
pub(crate) const TAKES: usize = 20_000;

const ROUNDS: usize = 7;

/// Nanoseconds of processor time per take in one thread. With a single thread the best round counts, because noise only adds
/// time; with several the median, because their best round is one without contention by chance.
pub(crate) fn measure(row: &Row, threads: usize) -> f64 {
    let mut rounds: Vec<f64> =
        (0..ROUNDS).map(|_| round(row.takers(threads, TAKES, Time::Machine))).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[if threads == 1 { 0 } else { ROUNDS / 2 }]
}

fn round(takers: Vec<Taker<'_>>) -> f64 {
    let threads = takers.len();
    let together = &Barrier::new(threads);
    let spent: Duration = std::thread::scope(|scope| {
        let run = |mut taker: Taker<'_>| {
            together.wait();
            let begun = thread_time();
            taker.take(TAKES);
            thread_time().saturating_sub(begun)
        };
        let running: Vec<_> = takers.into_iter().map(|taker| scope.spawn(move || run(taker))).collect();
        running.into_iter().map(|thread| thread.join().expect("a take went wrong")).sum()
    });
    spent.as_nanos() as f64 / (TAKES * threads) as f64
}

fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
