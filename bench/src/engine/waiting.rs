//! Waiting: a thousand tasks that share a rate of a thousand a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;

use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rivals::{Waiter, governor, leaky_bucket, tollway};
use crate::stopwatch::Stopwatch;

const TASKS: usize = 1_000;
const RATE: u32 = 1_000;
const WORKER_THREADS: usize = 2;
/// This many tasks are queued in front and want one grant each: when the first measured task is served, all of them are
/// queued, and the run does not end where a round of grants began.
const IN_FRONT: usize = 100;

struct Outcome {
    of_rate_percent: f64,
    cpu_micros_per_grant: f64,
    /// Grants per task, from the task with the fewest to the one with the most.
    grants: Vec<u32>,
}

pub(crate) fn measure(duration: Duration, report: &mut BenchReport) {
    let seconds = duration.as_secs();
    report.note(format!(
        "Waiting: {TASKS} tasks on {WORKER_THREADS} worker threads take in a loop for {seconds} s, from one limit of \
         {RATE} a second without bursts, behind {IN_FRONT} others that want one grant each. A share is {} grants, or one less \
         for the last task in the queue.",
        u64::from(RATE) * seconds / TASKS as u64
    ));
    let ours = wait_on("tollway", &tollway::Waiter::new(RATE), duration);
    let governor = wait_on("governor", &governor::Waiter::new(RATE), duration);
    let leaky_bucket = wait_on("leaky-bucket", &leaky_bucket::Waiter::new(RATE), duration);
    for (rival, theirs) in [("governor until_ready", governor), ("leaky-bucket fair", leaky_bucket)] {
        compare(rival, &ours, &theirs, report);
    }
}

fn compare(rival: &str, ours: &Outcome, theirs: &Outcome, report: &mut BenchReport) {
    let mut row = |case, unit, better, wanted: Option<f64>, figure: fn(&Outcome) -> f64| {
        let row = Row::new(case, rival, unit, better, figure(ours), figure(theirs));
        report.push(row.wanted(wanted.map(Wanted::Ours)));
    };
    row("waiting, granted of the rate", "%", Better::Higher, Some(99.0), |outcome| outcome.of_rate_percent);
    row("waiting, per grant", "us CPU", Better::Lower, Some(60.0), |outcome| outcome.cpu_micros_per_grant);
    row("waiting, task with the fewest", "grants", Better::Higher, None, |outcome| outcome.grants[0].into());
    row("waiting, task in the middle", "grants", Better::Higher, None, |outcome| {
        outcome.grants[TASKS / 2].into()
    });
    row("waiting, task with the most", "grants", Better::Lower, None, |outcome| {
        outcome.grants[TASKS - 1].into()
    });
    row("waiting, most less fewest", "grants", Better::Lower, Some(1.0), |outcome| {
        (outcome.grants[TASKS - 1] - outcome.grants[0]).into()
    });
}

fn wait_on<W: Waiter>(name: &str, waiter: &W, duration: Duration) -> Outcome {
    eprintln!("waiting: {name}, {} s", duration.as_secs());
    let mut runtime = Builder::new_multi_thread();
    let runtime =
        runtime.worker_threads(WORKER_THREADS).enable_time().build().expect("threads can be started");
    let grants: Arc<[AtomicU32]> = (0..TASKS).map(|_| AtomicU32::new(0)).collect();
    let in_front = Arc::new(AtomicU32::new(0));
    let stopwatch = Stopwatch::of_process();
    for _ in 0..IN_FRONT {
        let (waiter, in_front) = (waiter.join(), Arc::clone(&in_front));
        runtime.spawn(async move {
            waiter.wait().await;
            in_front.fetch_add(1, Ordering::Relaxed);
        });
    }
    for task in 0..TASKS {
        let (waiter, grants) = (waiter.join(), Arc::clone(&grants));
        runtime.spawn(async move {
            loop {
                waiter.wait().await;
                grants[task].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    std::thread::sleep(duration);
    let elapsed = stopwatch.elapsed();
    let mut grants: Vec<u32> = grants.iter().map(|grants| grants.load(Ordering::Relaxed)).collect();
    // So that no task still runs during the next measurement.
    runtime.shutdown_timeout(Duration::from_secs(1));
    grants.sort_unstable();
    let total = f64::from(grants.iter().sum::<u32>() + in_front.load(Ordering::Relaxed));
    Outcome {
        of_rate_percent: total / elapsed.wall.as_secs_f64() / f64::from(RATE) * 100.0,
        cpu_micros_per_grant: elapsed.cpu.as_secs_f64() * 1e6 / total,
        grants,
    }
}
