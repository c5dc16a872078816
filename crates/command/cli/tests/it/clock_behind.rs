//! Commands on a machine whose clock is an hour behind what is stored: the test stores it with a clock that is ahead.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::sync::Arc;

use serde_json::Value;
use tollway::Limiter;
use tollway::core::{Clock, Name, Span};
use tollway_memory::{FileStore, WallClock};
use tollway_pipeline::{Engine, NewJob, SqliteEngine};
use tollway_testkit::SteppedClock;

use crate::home::Home;

const CONFIG: &str = r#"
[store]
url = "file:state"
[policies.adobe]
limits = ["1 requests / minute"]
[policies.vendor]
limits = ["9 requests / second"]
[pipelines.pdf]
engine = "sqlite:pdf.db"
[[pipelines.pdf.stages]]
name = "tag"
take = { vendor = { requests = 1 } }
handler = { command = ["python3", "worker.py"] }
"#;

const WORKER: &str = r#"
import json, sys
for line in sys.stdin:
    print(json.dumps({"done": json.loads(line)["job"]["id"]}), flush=True)
"#;

fn an_hour_ahead() -> Arc<SteppedClock> {
    let clock = SteppedClock::of(Arc::new(WallClock));
    clock.set_forward(Span::from_hours(1));
    Arc::new(clock)
}

/// A home whose state file was written an hour from now.
fn home() -> Home {
    let home = Home::with_config(CONFIG);
    home.write("worker.py", WORKER);
    let store = FileStore::open(home.path().join("state"), an_hour_ahead()).unwrap();
    let limiter = Limiter::builder().policy("adobe", ["1 requests / minute"]).unwrap();
    let limiter = limiter.store(Arc::new(store)).build();
    assert!(limiter.try_take("adobe").now().unwrap().is_granted());
    home
}

/// Jobs that were enqueued an hour from now and are due a second later.
fn enqueue(home: &Home) {
    let clock = an_hour_ahead();
    let engine = SqliteEngine::open_going_by(clock.clone(), &home.path().join("pdf.db")).unwrap();
    let job = |key: &str| {
        let job = NewJob::new(&Name::new("tag").unwrap(), key, "{}").unwrap();
        job.not_before(clock.now().plus(Span::from_secs(1)))
    };
    let enqueued = engine.enqueue(vec![job("1"), job("2")], clock.now());
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(enqueued).unwrap();
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn commands_go_by_the_time_of_the_state_and_warn_once() {
    let home = home();
    let (code, answer, error) = home.run(&["why", "adobe", "--json"]);
    let wait = json(&answer)["retry_after_ms"].as_u64().unwrap_or(0);
    assert!([0, 75].contains(&code) && wait <= 60_000, "{answer} {error}");
    let (_, answer, error) = home.run(&["usage", "adobe", "--json"]);
    let reset = json(&answer)["policies"][0]["limits"][0]["reset_ms"].as_u64().unwrap();
    assert!(reset <= 60_000, "{reset}: the minute ends within a minute, not in an hour");
    assert_eq!(error.matches("behind what is stored").count(), 1, "{error}");
    assert!(error.contains("1 h") || error.contains("59 min"), "{error}");
}

#[test]
fn doctor_says_that_the_clock_is_behind_and_changes_nothing() {
    let home = home();
    enqueue(&home);
    let state = std::fs::read(home.path().join("state")).unwrap();
    let (code, answer, error) = home.run(&["doctor", "--json"]);
    assert_eq!(code, 1, "{error}");
    let findings = json(&answer)["findings"].as_array().unwrap().clone();
    let found: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["code"] == "clock-behind")
        .map(|finding| finding["what"].as_str().unwrap())
        .collect();
    assert_eq!(found.len(), 2, "the store's file and the jobs: {answer}");
    assert!(found[0].contains("state") && found[1].contains("pdf.db"), "{found:?}");
    assert_eq!(std::fs::read(home.path().join("state")).unwrap(), state);
}

/// P9: the jobs are due in a second by their own time. By the clock they would be in an hour.
#[test]
fn a_pipeline_goes_on_and_status_says_that_the_clock_is_behind() {
    let home = home();
    enqueue(&home);
    let (code, answer, error) = home.run(&["pipeline", "status", "--json"]);
    assert_eq!(code, 0, "{error}");
    let status = json(&answer);
    let behind = status["clock_behind_s"].as_u64().unwrap();
    assert!((3_000..=3_600).contains(&behind), "{behind}");
    let at: jiff::Timestamp = status["at"].as_str().unwrap().parse().unwrap();
    assert!(at.as_second() > (WallClock.now().as_micros() / 1_000_000 + 3_000).cast_signed(), "{status}");
    assert_eq!(error.matches("behind what is stored").count(), 1, "{error}");

    let (code, answer, error) = home.run(&["pipeline", "run", "--json"]);
    assert_eq!(code, 0, "{error}");
    let summary = json(&answer);
    assert_eq!(summary["stages"][0]["done"], 2);
    assert!(summary["seconds"].as_f64().unwrap() < 600.0, "{summary}");
    assert_eq!(error.matches("the clock is behind").count(), 1, "{error}");
}
