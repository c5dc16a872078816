//! What handlers answer: in one line or in parts, text in place of JSON, and what no try would make better.

use std::net::TcpListener;

use tollway_pipeline::{CommandConfig, HandlerConfig, HttpConfig, Job, NewJob, StageConfig, State};

use super::http::serve;
use super::subprocess::{Lab, command, with};
use super::{last_attempt, name};

/// A stage that would try again, one job at a time, and hands on.
fn patient(stage: StageConfig) -> StageConfig {
    StageConfig { tries: 3, crashes: 3, concurrency: 1, next: Some(name("b")), ..stage }
}

fn of_stage<'j>(jobs: &'j [Job], stage: &'j str) -> impl Iterator<Item = &'j Job> {
    jobs.iter().filter(move |job| job.stage.as_str() == stage)
}

/// Runs until the jobs of the stage `a` have ended.
async fn run(lab: &Lab, stage: StageConfig) -> Vec<Job> {
    let runner = lab.start(stage).await;
    let ended = |job: &&Job| matches!(job.state, State::Done | State::Dead);
    let jobs = loop {
        let jobs = super::jobs(&lab.engine).await;
        if of_stage(&jobs, "a").all(|job| ended(&job)) {
            break jobs;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    runner.drain(tollway_core::Span::from_secs(5)).await.unwrap();
    jobs
}

/// P9: 5,000 outputs of 250 bytes are more than a line may have.
#[tokio::test]
async fn outputs_come_in_parts() {
    let lab = Lab::new();
    lab.enqueue(2).await;
    let jobs = run(&lab, patient(lab.stage("parts"))).await;
    assert!(of_stage(&jobs, "a").all(|job| job.state == State::Done), "{jobs:?}");
    let handed = of_stage(&jobs, "b").map(|job| job.data.len());
    assert_eq!(handed.filter(|bytes| *bytes == 250).count(), 5_000);
}

/// P9: an answer of more than 1 MiB in one line is refused at the first try, and its process works on.
#[tokio::test]
async fn answer_of_a_line_that_is_too_long_is_dead_with_the_reason() {
    for each in [false, true] {
        let lab = Lab::new();
        lab.enqueue(if each { 1 } else { 2 }).await;
        let mut stage = patient(lab.stage("one_line"));
        command(&mut stage).each = each;
        let jobs = run(&lab, stage).await;
        assert_eq!((jobs[0].state, jobs[0].failures, jobs[0].crashes), (State::Dead, 1, 0), "{each}");
        assert!(
            jobs[0].error.starts_with("the answer is a line over 1 MiB: hand on in parts"),
            "{}",
            jobs[0].error
        );
        assert!(jobs[1..].iter().all(|job| (job.state, job.claim_number) == (State::Done, 1)), "{jobs:?}");
    }
}

/// P9: dead letters are grouped by their error, so it has the reason.
#[tokio::test]
async fn answers_that_lose_outputs_are_dead_with_the_reason() {
    for (behaviour, reason) in [
        ("too_many", "the answer cannot be stored: 10001 outputs in one call, more than the 10000 allowed"),
        ("misspelt", "the answer cannot be read: the key \"output\" is unknown; it may have done, outputs"),
    ] {
        let lab = Lab::new();
        lab.enqueue(1).await;
        let jobs = run(&lab, patient(lab.stage(behaviour))).await;
        assert_eq!((jobs[0].state, jobs[0].failures, jobs.len()), (State::Dead, 1, 1), "{behaviour}");
        assert!(jobs[0].error.starts_with(reason), "{}", jobs[0].error);
    }
}

/// Answers 200 with the text that the request is.
fn echo(body: &str) -> String {
    let text: String = serde_json::from_str(body).unwrap();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

/// P9: 2xx is done, whatever text comes with it. What was meant as an answer and is none is a dead letter at the first try.
#[tokio::test]
async fn text_of_an_http_handler_is_its_result() {
    let lab = Lab::new();
    let texts = ["", "OK", "{\"outputs\": [}", "{\"status\": \"done\"}", "{\"result\": {\"pages\": 3}}"];
    let job =
        |text: &str| NewJob::new(&name("a"), &format!("says {text}"), &serde_json::json!(text).to_string());
    let new = texts.map(|text| job(text).unwrap());
    lab.engine.enqueue(new.to_vec(), lab.limiter.clock().now()).await.unwrap();
    let url = serve(TcpListener::bind("127.0.0.1:0").unwrap(), echo);
    let stage = StageConfig {
        handler: Some(HandlerConfig::Http(HttpConfig::new(url))),
        ..with(CommandConfig::new(["none"]))
    };
    let jobs = run(&lab, patient(stage)).await;
    let states: Vec<_> = jobs.iter().map(|job| (job.state, job.claim_number)).collect();
    assert_eq!(
        states,
        [State::Done, State::Done, State::Dead, State::Dead, State::Done].map(|state| (state, 1))
    );
    for (job, reason) in [(&jobs[2], "the response is not an answer: "), (&jobs[3], "\"status\" is unknown")]
    {
        let (error, detail) = last_attempt(&lab.engine, job).await;
        assert!(error.contains(reason) && job.key.ends_with(&detail), "{error} {detail}");
    }
    let results = lab.engine.results(&name("a"), None, 10).await.unwrap().items;
    let results: Vec<_> = results.into_iter().map(|result| result.result).collect();
    let ok = |text: &str| Some(text.to_owned());
    assert_eq!(results, [None, ok("\"OK\""), ok("{\"pages\": 3}")]);
}
