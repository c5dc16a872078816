//! A process without a runner that is killed at any moment: every answer it got is stored, in a file and in Postgres.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tollway_core::{Span, Timestamp};
use tollway_pipeline::{ClaimRequest, Conclusion, Engine, Filter, Finished, Job, NewJob, Output, State};
use tollway_testkit::servers::PostgresServer;

use crate::child::open;
use crate::{kills, stage};

/// A file, or the URL of a Postgres.
const JOBS: &str = "TOLLWAY_CRASH_JOBS";
/// A round has at least so many, on a slow machine, too: its eight workers have enqueued and finished.
const ANSWERS: usize = 30;
const ROUND: &str = "TOLLWAY_CRASH_ROUND";

/// Not a test of its own: the process that is killed. It prints what was acknowledged, one line each.
#[test]
fn victim() {
    let Ok(jobs) = std::env::var(JOBS) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let engine = open(&jobs);
    let now = Timestamp::from_secs(1_000 * (round + 1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        engine.abandon(None, now).await.unwrap();
        let workers: Vec<_> = (0..8)
            .map(|worker| tokio::spawn(work(engine.clone(), format!("{round}-{worker}"), now)))
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
    });
}

async fn work(engine: Arc<dyn Engine>, name: String, now: Timestamp) {
    for n in 0.. {
        let keys = [format!("{name}-{n}-0"), format!("{name}-{n}-1")];
        let jobs = keys.iter().map(|key| NewJob::new(&stage("a"), key, "{}").unwrap()).collect();
        engine.enqueue(jobs, now).await.unwrap();
        keys.iter().for_each(|key| acknowledge(&format!("enqueued {key}")));
        let request = ClaimRequest::new(&stage("a"), &name, Span::from_mins(15));
        let mut next = engine.claim(request.clone(), now).await.unwrap().pop();
        while let Some(claimed) = next {
            let outputs = vec![Output::new(&stage("b"), "1").unwrap(); 2];
            let conclusion = Conclusion::Done { outputs, result: None };
            let asked = vec![request.clone()];
            let (finished, goes_on) =
                engine.finish_and_claim(claimed.claim, conclusion, asked, now).await.unwrap();
            assert_eq!(finished, Finished::Committed { outputs: 2, joined: 0 });
            acknowledge(&format!("finished {}", claimed.job.key));
            next = goes_on;
        }
    }
}

/// One write a line, so that a killed process leaves at most one cut line.
fn acknowledge(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

/// P4: kills lose no acknowledged job, and commit nothing twice.
#[test]
fn killed_process_loses_nothing_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    kill_often(folder.path().join("jobs.db").to_str().unwrap());
}

/// P4: the same for a process whose jobs are in Postgres.
#[test]
fn killed_process_loses_nothing_in_postgres() {
    let server = PostgresServer::start();
    kill_often(&server.url());
}

fn kill_often(jobs: &str) {
    let (mut enqueued, mut finished) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..kills() {
        for line in run_and_kill(jobs, round) {
            match line.split_once(' ') {
                Some(("enqueued", key)) => assert!(enqueued.insert(key.to_owned()), "{key} twice"),
                Some(("finished", key)) => assert!(finished.insert(key.to_owned()), "{key} twice"),
                _ => {}
            }
        }
    }
    assert!(enqueued.len() > 100 && finished.len() > 50, "{} {}", enqueued.len(), finished.len());
    check(jobs, &enqueued, &finished);
}

/// Lets the process work for some milliseconds after its first answers, kills it, and returns its whole lines.
fn run_and_kill(jobs: &str, round: u64) -> Vec<String> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::victim", "--nocapture", "--test-threads=1"])
        .env(JOBS, jobs)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(victim.stdout.take().unwrap());
    let (mut line, mut lines, mut answers) = (String::new(), Vec::new(), 0);
    while output.read_line(&mut line).unwrap() > 0 {
        answers += usize::from(line.starts_with("enqueued ") || line.starts_with("finished "));
        lines.push(std::mem::take(&mut line));
        if answers == ANSWERS {
            break;
        }
    }
    // The pipe holds some thousand lines, more than it writes in this time. Where it stops does not matter.
    std::thread::sleep(Duration::from_micros(round * 7_919 % 60_000));
    victim.kill().unwrap();
    victim.wait().unwrap();
    while output.read_line(&mut line).unwrap() > 0 {
        lines.push(std::mem::take(&mut line));
    }
    lines.into_iter().filter_map(|line| line.strip_suffix('\n').map(str::to_owned)).collect()
}

fn check(jobs: &str, enqueued: &BTreeSet<String>, finished: &BTreeSet<String>) {
    let engine = open(jobs);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut jobs, mut after): (Vec<Job>, _) = (Vec::new(), None);
    loop {
        let page = runtime.block_on(engine.scan(Filter::default(), after, 1_000)).unwrap();
        jobs.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let keys = |of: &str, done: bool| -> BTreeSet<String> {
        let those = |job: &&Job| job.stage.as_str() == of && (!done || job.state == State::Done);
        jobs.iter().filter(those).map(|job| job.key.clone()).collect()
    };
    let (there, done, outputs) = (keys("a", false), keys("a", true), keys("b", false));
    assert_eq!(enqueued.difference(&there).collect::<Vec<_>>(), [""; 0], "enqueued, but lost");
    assert_eq!(finished.difference(&done).collect::<Vec<_>>(), [""; 0], "finished, but not done");
    let expected: BTreeSet<String> =
        done.iter().flat_map(|key| [format!("{key}>a.0"), format!("{key}>a.1")]).collect();
    assert_eq!(outputs, expected, "one set of outputs for each done job");
    for counts in runtime.block_on(engine.counts()).unwrap() {
        for state in State::ALL {
            let there = jobs.iter().filter(|job| job.stage == counts.stage && job.state == state).count();
            assert_eq!(counts.of(state), there as u64, "{} in {:?}", state, counts.stage);
        }
    }
}
