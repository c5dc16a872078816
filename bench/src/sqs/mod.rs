//! Group aws, cases `sqs`: the requests to SQS that a job costs in each of two stages that share one quota.
//!
//! [`ours`] is Tollway's pipeline on SQS. [`naive`] is the usual loop, which handles one message at a time. [`round`] runs one
//! of them on its own emulator, behind a proxy whose counts [`requests`] reads. [`vendor`] is what both call.

mod naive;
mod ours;
mod requests;
mod round;
mod vendor;

use std::thread;

use anyhow::Result;
use tollway::Span;

use crate::report::BenchReport;
use naive::Naive;
use ours::Ours;
use round::{Case, play};

/// Target: requests to SQS of a job in one stage, of ours, with a window.
const REQUESTS_MAX: f64 = 0.5;

const RIVAL: &str = "one message at a time";

/// How many jobs each stage runs at a time: the default of a pipeline.
const WORKERS: u32 = 10;

pub(crate) fn measure(quick: bool, report: &mut BenchReport) -> Result<()> {
    let [window, paced] = cases(quick);
    notes(&window, &paced, report);
    eprintln!("{}; {}", window.name, paced.name);
    // All four at once: they wait for quota most of the time.
    let [[ours_window, naive_window], [ours_paced, naive_paced]] = thread::scope(|scope| {
        let started = [&window, &paced]
            .map(|case| [scope.spawn(|| play::<Ours>(case)), scope.spawn(|| play::<Naive>(case))]);
        started.map(|pair| pair.map(|thread| thread.join().expect("a run does not panic")))
    });
    ours_window?.compare(&naive_window?, &window.name, RIVAL, Some(REQUESTS_MAX), report);
    ours_paced?.compare(&naive_paced?, &paced.name, RIVAL, None, report);
    Ok(())
}

/// The same limit as a window, and paced. A job makes two calls: a full run takes three periods.
fn cases(quick: bool) -> [Case; 2] {
    let (text, name) = if quick { ("5 seconds", "in 5 seconds") } else { ("minute", "a minute") };
    let (jobs, jobs_paced) = if quick { (200, 50) } else { (300, 300) };
    let window = Case {
        name: format!("sqs, 200 requests {name} as a window"),
        limit: format!("200 requests / {text}"),
        // A quick run does not wait for a window to begin.
        starts_with: (!quick).then_some(Span::from_mins(1)),
        jobs,
    };
    let paced = Case {
        name: format!("sqs, 200 requests {name}, paced"),
        limit: format!("200 requests / {text} paced"),
        starts_with: None,
        jobs: jobs_paced,
    };
    [window, paced]
}

fn notes(window: &Case, paced: &Case, report: &mut BenchReport) {
    report.note(format!(
        "Cases `sqs`: {} jobs (paced: {}) go through two stages that share the limit, in one run. SQS is an emulator \
         (ministack), one for each contender, behind a proxy that counts requests. Figures are requests for a job and stage; \
         empty receives count. Creating the queues and enqueueing the jobs does not count; handing jobs to the second stage \
         does. Ours also writes a ledger in DynamoDB, here the same emulator.",
        window.jobs, paced.jobs
    ));
    report.note(format!(
        "Both contenders run {WORKERS} jobs at a time in each stage, take from a limiter in memory, and make calls of 20 to \
         200 ms. The rival has {WORKERS} loops for each stage: receive one message (`WaitTimeSeconds` 20), wait for a token, \
         call, send one message to the second stage, delete one message. Runs under a window start when a window begins, \
         unless quick. Each run checks that every job made one call in each stage, and that the queues are empty."
    ));
}
