//! Jobs in SQS, with a ledger in DynamoDB.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;
use tollway_pipeline::{EngineUrl, State};
use tollway_sqs::SqsEngine;
use tollway_testkit::servers::Ministack;

use super::lab::{Lab, UNGATED, job};
use super::live_move::{Place, there_and_back};

/// A ledger of its own on the shared server.
pub(super) fn url() -> String {
    static LEDGERS: AtomicU32 = AtomicU32::new(0);
    let ledger = format!("command-{}", LEDGERS.fetch_add(1, Ordering::Relaxed));
    let endpoint = Ministack::shared().endpoint();
    format!("sqs:?ledger={ledger}&endpoint={endpoint}&access=test:hunter2&create=yes&wait=1s")
}

pub(super) fn engine(url: &str) -> Arc<SqsEngine> {
    Arc::new(SqsEngine::open(&EngineUrl::parse(url).unwrap()).unwrap())
}

/// P8: a live backlog moves from a file to SQS and back while workers run; every job is done once.
#[test]
fn live_backlog_moves_to_sqs_and_back() {
    let file = Place { url: "sqlite:pdf.db", open: |lab, _| lab.running() };
    there_and_back(&file, &Place { url: &url(), open: |lab, url| lab.jobs_of(engine(url)) });
}

/// P8: the same from Postgres and back.
#[test]
#[cfg(feature = "postgres")]
fn live_backlog_moves_from_postgres_to_sqs_and_back() {
    use tollway_pipeline::PostgresEngine;
    use tollway_testkit::servers::PostgresServer;

    let server = PostgresServer::start();
    let postgres = Place {
        url: &server.url(),
        open: |lab, url| lab.jobs_of(Arc::new(PostgresEngine::open(url).unwrap())),
    };
    there_and_back(&postgres, &Place { url: &url(), open: |lab, url| lab.jobs_of(engine(url)) });
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

/// A caller may leave a call unfinished for a while, as `select!` does: other calls do not wait for it.
#[test]
fn call_that_is_not_polled_blocks_no_other() {
    let url = url();
    let lab = Lab::with_config(&UNGATED.replace("sqlite:pdf.db", &url));
    let jobs = lab.jobs_of(engine(&url));
    jobs.add(vec![job("autotag", "one")]);
    jobs.wait(jobs.engine.counts());
    jobs.add(vec![job("autotag", "two")]);
    let (unfinished, answered) = lab.runtime.block_on(async {
        let mut unfinished = jobs.engine.counts();
        let polled = poll_fn(|context| Poll::Ready(unfinished.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "{polled:?}");
        (unfinished, timeout(Duration::from_secs(10), jobs.engine.counts()).await)
    });
    let counts = answered.expect("a call waits for one that is not polled").unwrap();
    assert_eq!(counts[0].of(State::Ready), 2);
    drop(unfinished);
}
