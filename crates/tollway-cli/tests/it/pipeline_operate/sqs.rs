//! Jobs in SQS, with a ledger in DynamoDB.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tollway_pipeline::{Conclusion, EngineUrl, SqsEngine, State};
use tollway_testkit::servers::Ministack;

use super::lab::{Jobs, Lab, UNGATED, job};

/// A ledger of its own on the shared server.
fn url() -> String {
    static LEDGERS: AtomicU32 = AtomicU32::new(0);
    let ledger = format!("command-{}", LEDGERS.fetch_add(1, Ordering::Relaxed));
    let endpoint = Ministack::shared().endpoint();
    format!("sqs:?ledger={ledger}&endpoint={endpoint}&access=test:hunter2&create=yes&wait=1s")
}

fn engine(url: &str) -> Arc<SqsEngine> {
    Arc::new(SqsEngine::open(&EngineUrl::parse(url).unwrap()).unwrap())
}

/// How many jobs move.
fn backlog() -> usize {
    std::env::var("TOLLWAY_MOVED").map_or(300, |jobs| jobs.parse().unwrap())
}

/// Works on jobs until it is told to end. Which keys were done, and how often.
fn work(jobs: &Jobs<'_>, ends: &AtomicBool) -> BTreeMap<String, usize> {
    let mut done = BTreeMap::new();
    loop {
        let ended = ends.load(Ordering::SeqCst);
        let claimed = jobs.claim("autotag", 3);
        if claimed.is_empty() && ended {
            return done;
        }
        for claimed in claimed {
            *done.entry(claimed.job.key.clone()).or_default() += 1;
            jobs.finish(claimed, Conclusion::Done { outputs: Vec::new(), result: None });
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// P8: a live backlog moves to SQS and back while workers run; every job is done once.
#[test]
fn live_backlog_moves_to_sqs_and_back() {
    let url = url();
    let lab = Lab::with_config(UNGATED);
    let jobs = lab.running();
    for from in (0..backlog()).step_by(1_000) {
        jobs.add((from..backlog().min(from + 1_000)).map(|n| job("autotag", &n.to_string())).collect());
    }
    jobs.kill(job("extract", "dead").group("g").unwrap(), "extract", "HTTP 500", "<html>");
    let move_while_working = |jobs: &Jobs<'_>, to: &str| {
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let working = scope.spawn(|| work(jobs, &ends));
            let report = lab.json(&["migrate", "--to", to]);
            ends.store(true, Ordering::SeqCst);
            (working.join().unwrap(), report)
        })
    };
    let (mut done, report) = move_while_working(&jobs, &url);
    assert_eq!(report["complete"], true, "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");
    drop(jobs);

    lab.home.write("tollway.toml", UNGATED.replace("sqlite:pdf.db", &url));
    let there = lab.jobs_of(engine(&url));
    assert_eq!(there.in_state(State::Ready).len(), backlog() - done.len());
    assert!(lab.ok(&["dead", "show", "dead"]).contains("| <html>"));
    let (more, report) = move_while_working(&there, "sqlite:pdf.db");
    assert_eq!(report["complete"], true, "{report}");
    drop(there);
    // The file was paused when its jobs left it.
    lab.home.write("tollway.toml", UNGATED);
    lab.ok(&["resume", "autotag"]);
    let back = lab.jobs();
    let ends = AtomicBool::new(true);
    let rest = work(&back, &ends);
    for (key, times) in more.into_iter().chain(rest) {
        *done.entry(key).or_default() += times;
    }
    let twice: Vec<_> = done.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(done.len(), backlog());
    assert_eq!(back.in_state(State::Dead).len(), 1);
}

/// Every command works on it, or says why not.
#[test]
fn commands_work_on_sqs() {
    let url = url();
    let lab = Lab::with_config(&UNGATED.replace("sqlite:pdf.db", &url));
    let jobs = lab.jobs_of(engine(&url));
    jobs.add(vec![job("autotag", "one"), job("autotag", "two")]);
    let dead = jobs.kill(job("extract", "bad"), "extract", "HTTP 500", "<html>");
    assert_eq!(lab.json(&["status"])["stages"][0]["ready"], 2);
    assert!(lab.ok(&["dead", "list"]).contains("HTTP 500"));
    assert!(lab.ok(&["dead", "show", "bad"]).contains("| <html>"));
    assert!(lab.ok(&["dead", "export"]).contains("\"bad\""));
    assert_eq!(lab.ok(&["dead", "redrive", "--all"]), "redrove 1 dead letter\n");
    assert_eq!(jobs.job(dead).state, State::Ready);
    assert!(lab.ok(&["pause", "autotag"]).contains("2 jobs ready"));
    assert!(lab.ok(&["why", "one"]).contains("stage autotag is paused"));
    lab.ok(&["resume", "autotag"]);
    lab.ok(&["concurrency", "autotag", "7"]);
    assert!(lab.ok(&["cancel", "--stage", "autotag", "--yes"]).contains("2"));
    let (exit, _, error) = lab.run(&["backup", "copy.db"]);
    assert_eq!(exit, 2);
    assert!(error.contains("point-in-time recovery"), "{error}");
    assert!(lab.ok(&["plan", "--items", "1000"]).contains("kept for"));
}

/// P2: a queue that forgets before the backlog is done is found before anything runs.
#[test]
fn plan_reads_the_retention_of_the_queue() {
    let (url, server) = (url(), Ministack::shared());
    let lab = Lab::with_config(&UNGATED.replace("sqlite:pdf.db", &url));
    let ledger = url.split(['=', '&']).nth(1).unwrap().to_owned();
    for queue in ["autotag", "autotag-dead", "extract", "extract-dead"] {
        let attributes = serde_json::json!({ "MessageRetentionPeriod": "345600" });
        let request =
            serde_json::json!({ "QueueName": format!("{ledger}-{queue}"), "Attributes": attributes });
        server.ask("AmazonSQS.CreateQueue", &request);
    }
    let (exit, text, error) = lab.run(&["plan", "--items", "3M"]);
    assert_eq!(exit, 78, "{text}{error}");
    assert!(error.contains("MessageRetentionPeriod"), "{error}");
}

/// A stage that waits for groups is refused before a job is enqueued.
#[test]
fn stage_that_waits_for_groups_is_refused() {
    let lab = Lab::with_config(&super::lab::CONFIG.replace("sqlite:pdf.db", &url()));
    let (exit, _, error) = lab.run(&["run"]);
    assert_ne!(exit, 0);
    assert!(error.contains("`after`") && error.contains("SQS"), "{error}");
}
