//! `kill -9` of pipelines and of their workers, at random moments.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::checker::{OPEN, check};
use crate::child::{Handlers, Plan};
use crate::kills;
use crate::lab::{Jobs, Lab, Process, wait_until};

/// Between two kills there are at least this many calls, on a slow machine, too.
const CALLS_MIN: u64 = 5;

/// The longest time between these calls and the next kill.
const PAUSE_MAX_MS: u64 = 200;

/// P4: nothing is lost, nothing is committed twice, and no late answer is accepted.
#[test]
fn killed_pipeline_loses_nothing_and_commits_once() {
    kill_often(&Lab::new(Jobs::Sqlite), &["one"]);
}

/// P4, P8: the same for two processes that share their jobs in Postgres. One of them works on while the other is dead.
#[test]
fn killed_pipelines_on_postgres_lose_nothing_and_commit_once() {
    kill_often(&Lab::new(Jobs::postgres()), &["one", "two"]);
}

/// P4, P8: the same in SQS, where the ledger is all that is certain.
#[test]
fn killed_pipelines_on_sqs_lose_nothing_and_commit_once() {
    kill_often(&Lab::new(Jobs::sqs(|server| format!("http://{server}"))), &["one", "two"]);
}

/// P9: what a handler forks ends with the pipeline, also what left its process group.
#[test]
fn killed_pipeline_takes_forks_of_its_handlers_with_it() {
    let lab = Lab::new(Jobs::Sqlite);
    let process = lab.start(Plan { handlers: Handlers::PythonThatForks, ..lab.plan("one", 0) });
    wait_until("two handlers have forked twice each", || process.handlers().len() >= 6);
    process.kill();
}

/// Every other kill is one of a pipeline, which is started again; the others are of a Python process that works for one.
fn kill_often(lab: &Lab, workers: &[&str]) {
    let plan = |worker: &str, round| Plan {
        handlers: Handlers::Python,
        concurrency: 3,
        free_stage: true,
        ..lab.plan(worker, round)
    };
    let mut processes: Vec<Process<'_>> = workers.iter().map(|worker| lab.start(plan(worker, 0))).collect();
    let mut random = 1_u64;
    for kill in 0..kills() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let calls = lab.vendor.calls();
        wait_until("jobs are done", || lab.vendor.calls() > calls + CALLS_MIN);
        std::thread::sleep(Duration::from_millis((random >> 33) % PAUSE_MAX_MS));
        if kill % 2 == 0 {
            let process = processes.remove(0);
            let worker = process.plan.worker.clone();
            process.kill();
            processes.push(lab.start(plan(&worker, kill + 1)));
        } else {
            kill_worker(lab, &processes);
        }
    }
    processes.iter_mut().for_each(Process::tell_to_end);
    processes.into_iter().for_each(Process::finish);
    match check(lab, OPEN, true) {
        Ok(figures) => println!("{} kills: {figures}", kills()),
        Err(wrong) => panic!("{wrong}"),
    }
}

/// Kills the Python process that has called last.
fn kill_worker(lab: &Lab, processes: &[Process<'_>]) {
    let mut pid = None;
    wait_until("a worker calls the vendor", || {
        let alive: Vec<String> = processes.iter().flat_map(Process::handlers).collect();
        let last = lab.vendor.last_workers().into_iter().find(|worker| alive.contains(worker));
        pid = last.and_then(|worker| Pid::from_raw(worker.parse().ok()?));
        pid.is_some()
    });
    // It may have ended meanwhile.
    let _ = kill_process(pid.unwrap(), Signal::KILL);
}
