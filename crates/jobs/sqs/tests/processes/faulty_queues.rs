//! SQS and DynamoDB on their bad days: answers are lost, messages come twice, entries of batches fail, requests are throttled and
//! receipts grow old, while workers are killed.

use std::collections::BTreeMap;
use std::time::Duration;

use tollway_core::Span;
use tollway_testkit::faults::BadDays;

use crate::checker::{Limit, check, export_events};
use crate::child::{Enqueues, Plan};
use crate::lab::{Jobs, Lab, Process, wait_until_within};

/// The quota, in windows that are short enough for a test.
const LIMIT: &str = "200 requests / 5 seconds";
const QUOTA: u64 = 200;
const WINDOW: Span = Span::from_secs(5);

/// How many kills there are for each window.
const KILL_EVERY: Duration = Duration::from_secs(3);

/// How many jobs are enqueued. Each hands two on, so it is a third of all jobs.
fn enqueued() -> u64 {
    std::env::var("TOLLWAY_QUEUED").map_or(600, |jobs| jobs.parse::<u64>().unwrap()).div_ceil(3)
}

/// P4, P8, P3: nothing lost, nothing committed twice, duplicates recognised and counted, and the quota exact at the vendor.
#[test]
fn bad_days_of_sqs_lose_nothing_and_commit_once() {
    let mut proxy = None;
    let lab = Lab::new(Jobs::sqs(|server| proxy.insert(BadDays::to(server, 1)).endpoint()));
    let proxy = proxy.unwrap();
    let plan = |worker: &str, round: u64, enqueues| Plan {
        limit: LIMIT.to_owned(),
        concurrency: 20,
        enqueues,
        ..lab.plan(worker, round)
    };
    let mut processes: Vec<Process<'_>> = vec![
        lab.start(plan("one", 0, Enqueues::AtOnce(enqueued()))),
        lab.start(plan("two", 0, Enqueues::AtOnce(0))),
    ];
    let calls = enqueued() * 3;
    let mut round = 0;
    // The enqueuer is not killed: what it was not told is enqueued is not missed.
    wait_until_within(time_limit(), "most jobs are done", || {
        std::thread::sleep(KILL_EVERY);
        round += 1;
        let killed = processes.pop().unwrap();
        let worker = killed.plan.worker.clone();
        killed.kill();
        processes.push(lab.start(plan(&worker, round, Enqueues::AtOnce(0))));
        lab.vendor.calls() * 10 >= calls * 9
    });
    processes.iter_mut().for_each(Process::tell_to_end);
    processes.into_iter().for_each(|process| process.finish_within(time_limit()));
    let figures = check(&lab, Limit { calls: QUOTA, window: WINDOW.as_micros() }, true);
    let events = export_events(&lab);
    let counts = proxy.counts();
    let per_job = counts.queue_requests as f64 / calls as f64;
    println!("{counts:?}; {per_job:.2} requests to SQS for each job and stage; {events}");
    println!("{}", share(&lab));
    match figures {
        Ok(figures) => println!("{round} kills: {figures}"),
        Err(wrong) => panic!("{wrong}"),
    }
    assert!(counts.twice > 0 && counts.old > 0 && counts.entries > 0 && counts.lost > 0, "{counts:?}");
}

/// Ten times as long as the quota needs.
fn time_limit() -> Span {
    Span::from_secs(120 + enqueued() * 3 * 5 / QUOTA * 10)
}

/// How much of the quota was used in windows between the first and the last, and how many calls each window had.
fn share(lab: &Lab) -> String {
    let log = std::fs::read_to_string(lab.path("vendor.log")).unwrap();
    let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
    for at in log.lines().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()) {
        *windows.entry(at / WINDOW.as_micros()).or_default() += 1;
    }
    let (Some(first), Some(last)) = (windows.keys().next(), windows.keys().last()) else {
        return "no calls".to_owned();
    };
    let calls: Vec<u64> =
        (first + 1..*last).map(|window| windows.get(&window).copied().unwrap_or(0)).collect();
    let (used, quota) = (calls.iter().sum::<u64>(), QUOTA * calls.len() as u64);
    match quota {
        0 => "too few windows to say how much of the quota was used".to_owned(),
        _ => format!(
            "{used} of {quota} calls of the quota used: {} %; by window {calls:?}",
            used * 100 / quota
        ),
    }
}
