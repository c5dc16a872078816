//! Both versions work on one pipeline, and are killed in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tollway_testkit::servers::{Ministack, PostgresServer};

use crate::version::{BOTH, Home, Running, Version, is_refusal, read, wait_until};

/// Jobs of the first stage. Each hands one on.
const JOBS: u64 = 120;

/// The vendor's quota.
const CALLS: u64 = 50;
const WINDOW_MICROS: u64 = 3_000_000;

/// How many runners are killed, and how long they work before that.
const KILLS: usize = 4;
const WORKS_FOR: Duration = Duration::from_millis(2_500);

/// Calls the vendor when it may: a line in a file that no engine knows.
const HANDLER: &str = r#"
import json, os, sys, time
vendor = os.open("calls.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
jobs = {}
for line in sys.stdin:
    message = json.loads(line)
    if "job" in message:
        jobs[message["job"]["id"]] = message["job"]
        answer = {"begin": message["job"]["id"]}
    else:
        job = jobs.pop(message["go"])
        os.write(vendor, f"{time.time_ns() // 1000} {job['stage']} {job['data']['n']}\n".encode())
        answer = {"done": job["id"], "result": job["data"]["n"]}
        if job["stage"] == "first":
            answer["outputs"] = [{"data": job["data"]}]
    print(json.dumps(answer), flush=True)
"#;

/// Most attempts may end with a kill here, and that is no reason to pause a stage.
fn config(engine: &str) -> String {
    let stage = |name: &str| {
        format!(
            "[[pipelines.p.stages]]\nname = \"{name}\"\ntake = {{ vendor = {{ requests = 1 }} }}\n\
             handler = {{ command = [\"python3\", \"handler.py\"], begin = true }}\nconcurrency = 4\n\
             visibility_timeout = \"60s\"\ntimeout = \"40s\"\ntries = 100\ncrashes = 100\nbackoff = \"100ms\"\n"
        )
    };
    let window = WINDOW_MICROS / 1_000_000;
    format!(
        "[store]\nurl = \"file:limits\"\n[policies.vendor]\nlimits = [\"{CALLS} requests / {window} seconds\"]\n\
         edge = \"150ms\"\nwhen_store_fails = \"closed\"\n[pipelines.p]\nengine = \"{engine}\"\n\
         [pipelines.p.alarms]\nattempts_min = 10000\n{}{}",
        stage("first"),
        stage("second")
    )
}

/// P4, P8: one process owns the file. The earlier version is killed, and today's takes over; or the other way round.
#[test]
#[ignore = "needs an earlier version: scripts/rolling-upgrade"]
fn versions_follow_each_other_on_one_file() {
    work_through("sqlite:jobs.db", 1);
}

/// P4, P8: both work at the same time.
#[test]
#[ignore = "needs an earlier version: scripts/rolling-upgrade"]
fn versions_share_jobs_in_postgres() {
    work_through(&PostgresServer::start().url(), 2);
}

/// P4, P8: the same in SQS.
#[test]
#[ignore = "needs an earlier version: scripts/rolling-upgrade"]
fn versions_share_jobs_in_sqs() {
    let server = Ministack::start();
    let endpoint = server.endpoint();
    work_through(&format!("sqs:?ledger=rolling&endpoint={endpoint}&access=test:test&create=yes&wait=1s"), 2);
}

/// A backlog that the earlier version has enqueued. So many runners work at a time, at first of both versions.
fn work_through(engine: &str, at_a_time: usize) {
    let home = Home::new(&config(engine));
    home.write("handler.py", HANDLER);
    home.write(
        "jobs.jsonl",
        &(0..JOBS).map(|n| format!("{{\"key\": \"{n}\", \"n\": {n}}}\n")).collect::<String>(),
    );
    let enqueued = home.run(Version::Old, &["pipeline", "enqueue", "jobs.jsonl", "--json"]);
    assert!(enqueued.status.success(), "{}", String::from_utf8_lossy(&enqueued.stderr));

    let mut upgrade = Upgrade { home: &home, runners: Vec::new(), starts: 0, refusals: Vec::new() };
    for (place, version) in BOTH.into_iter().take(at_a_time).enumerate() {
        let runner = upgrade.start(place, version);
        upgrade.runners.push(runner);
    }
    for kill in 0..KILLS {
        upgrade.work();
        upgrade.replace(kill % at_a_time);
    }
    upgrade.finish();
    let refusals = upgrade.refusals;
    check_calls(&read(&home.path("calls.log")));
    check_jobs(&home, Version::New);
    if refusals.is_empty() {
        check_jobs(&home, Version::Old);
    }
    println!("{engine}: {JOBS} jobs done in both stages, {KILLS} kills; refusals: {refusals:?}");
}

struct Upgrade<'h> {
    home: &'h Home,
    runners: Vec<Running>,
    starts: usize,
    /// What the earlier version said when it did not work beside today's.
    refusals: Vec<String>,
}

impl Upgrade<'_> {
    /// Starts a runner. One that follows another has its name, and takes its jobs back.
    fn start(&mut self, place: usize, version: Version) -> Running {
        self.starts += 1;
        let (worker, log) = (format!("worker-{place}"), format!("run-{}-{version:?}", self.starts));
        let mut arguments = vec!["pipeline", "run", "--stay", "--json", "--log-level", "warn"];
        arguments.extend(["--worker", &worker]);
        let mut runner = self.home.start(version, &arguments, &log);
        // Its summary comes at the end, and nothing reads it.
        runner.child.stdout.take();
        runner
    }

    /// Kills a runner, and starts one of the other version in its place.
    fn replace(&mut self, place: usize) {
        let next = self.runners[place].version.other();
        self.runners[place].kill();
        self.runners[place] = self.start(place, next);
    }

    /// Lets them work for a while. An earlier version that refuses is replaced by today's.
    fn work(&mut self) {
        std::thread::sleep(WORKS_FOR);
        self.replace_refused();
    }

    fn replace_refused(&mut self) {
        for index in 0..self.runners.len() {
            if self.runners[index].ended().is_none() {
                continue;
            }
            let (said, version) = (self.runners[index].log(), self.runners[index].version);
            assert!(version == Version::Old && is_refusal(&said), "{version:?} has ended by itself: {said}");
            self.refusals.push(said);
            self.runners[index] = self.start(index, Version::New);
        }
    }

    /// Waits until all jobs are done, and ends the runners.
    fn finish(&mut self) {
        let home = self.home;
        wait_until("all jobs are done", || {
            self.replace_refused();
            std::thread::sleep(Duration::from_millis(300));
            let output = home.run(Version::New, &["pipeline", "status", "--json"]);
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            (0..2).all(|stage| status["stages"][stage]["done"] == JOBS)
        });
        self.runners.clear();
    }
}

/// The vendor was called for every job, and never more often than its quota allows.
fn check_calls(log: &str) {
    let (mut called, mut windows) = (BTreeSet::new(), BTreeMap::<u64, u64>::new());
    for line in log.lines() {
        let (at, job) = line.split_once(' ').unwrap();
        *windows.entry(at.parse::<u64>().unwrap() / WINDOW_MICROS).or_default() += 1;
        called.insert(job);
    }
    assert_eq!(called.len() as u64, 2 * JOBS, "jobs for which the vendor was called");
    let most = windows.values().max().copied().unwrap_or(0);
    assert!(most <= CALLS, "{most} calls in a window of {CALLS}: {windows:?}");
    println!(
        "{} calls for {} jobs of two stages, at most {most} of {CALLS} in a window",
        log.lines().count(),
        JOBS
    );
}

/// Every job is done in both stages, once.
fn check_jobs(home: &Home, version: Version) {
    let status = home.json(version, &["pipeline", "status", "--json"]);
    for stage in 0..2 {
        let counts = &status["stages"][stage];
        let left = ["ready", "delayed", "running", "dead"].map(|state| counts[state].as_u64().unwrap_or(0));
        assert_eq!((counts["done"].as_u64(), left), (Some(JOBS), [0; 4]), "{version:?}: {status}");
    }
    let results = home.command(version, &["pipeline", "results"]).stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8(results.stdout).unwrap();
    let mut results: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["result"].as_u64().unwrap())
        .collect();
    results.sort_unstable();
    assert_eq!(results, (0..JOBS).collect::<Vec<_>>(), "{version:?}: a result for each job");
}
