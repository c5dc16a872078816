//! `pipeline lambda`: an event on standard input, and as a function on Lambda's own protocol.

use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};
use tollway_testkit::servers::{CapturedAnswer, CapturingServer};

use super::{PIPELINE, home};
use crate::home::Home;

/// A message of the autotag queue for each of these bodies, with its index as its id.
fn event(bodies: &[Value]) -> String {
    let record = |(index, body): (usize, &Value)| {
        json!({
            "messageId": format!("m{index}"),
            "receiptHandle": "AQEB",
            "body": body.to_string(),
            "attributes": { "ApproximateReceiveCount": "1" },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:adobe-autotag-queue",
        })
    };
    json!({ "Records": bodies.iter().enumerate().map(record).collect::<Vec<_>>() }).to_string()
}

fn lambda(home: &Home, arguments: &[&str], event: &str) -> (i32, String, String) {
    let arguments: Vec<&str> = ["pipeline", "lambda"].iter().chain(arguments).copied().collect();
    let mut command = home.tollway(&arguments);
    let output = command.env_remove("AWS_LAMBDA_RUNTIME_API").write_stdin(event.to_owned()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn failures(answer: &str) -> Vec<String> {
    let answer: Value = serde_json::from_str(answer.lines().last().unwrap()).unwrap();
    let failures = answer["batchItemFailures"].as_array().unwrap().iter();
    failures.map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned()).collect()
}

fn status(home: &Home) -> Value {
    serde_json::from_str(&home.run(&["pipeline", "status", "--json"]).1).unwrap()
}

/// P1, P3: done messages are done and hand on, failed ones go back, one that the handler gives up is a dead letter.
#[test]
fn event_is_worked_on_and_answered_by_message() {
    let home = home(PIPELINE);
    let key = |key: &str| json!({ "chunk_key": key });
    let bodies = [
        key("a"),
        json!({ "chunk_key": "b", "fail": true }),
        json!({ "chunk_key": "c", "dead": true }),
        key("d"),
        json!({ "no": "key" }),
        json!({ "chunk_key": "e", "busy": "seen" }),
    ];
    let (code, answer, log) = lambda(&home, &[], &event(&bodies));
    assert_eq!(code, 0, "{log}");
    assert_eq!(failures(&answer), ["m1", "m4"], "{log}");
    let stages = status(&home)["stages"].clone();
    assert_eq!((&stages[0]["dead"], &stages[1]["ready"]), (&1.into(), &3.into()), "{stages}");
    let (_, dead, _) = home.run(&["pipeline", "dead", "list"]);
    assert!(dead.contains("not a PDF"), "{dead}");
    // SQS may deliver a message twice: what it hands on is known by its key.
    let (_, answer, log) = lambda(&home, &[], &event(&[key("a")]));
    assert_eq!(failures(&answer), Vec::<String>::new(), "{log}");
    assert_eq!(status(&home)["stages"][1]["ready"], 3);
}

/// P3: a message for which there is no quota in time goes back, and no call is made for it.
#[test]
fn message_without_quota_goes_back_before_the_deadline() {
    let config = PIPELINE.replace("100k requests / minute", "1 request / hour");
    let home = home(&config);
    let bodies = ["a", "b", "c"].map(|key| json!({ "chunk_key": key }));
    let (code, answer, log) = lambda(&home, &["--time", "13s"], &event(&bodies));
    assert_eq!(code, 0, "{log}");
    assert_eq!(failures(&answer).len(), 2, "one an hour: {answer}{log}");
    assert_eq!(status(&home)["stages"][1]["ready"], 1);
    let (_, usage, _) = home.run(&["usage", "adobe", "--json"]);
    let usage: Value = serde_json::from_str(&usage).unwrap();
    assert!(usage.to_string().contains("\"used\":1"), "{usage}");
}

#[test]
fn wrong_events_and_pipelines_are_explained() {
    let good = event(&[json!({ "chunk_key": "a" })]);
    for (config, arguments, event, says) in [
        (PIPELINE.to_owned(), &[][..], "{}".to_owned(), "not an event of SQS"),
        (
            PIPELINE.to_owned(),
            &[],
            good.replace("adobe-autotag-queue", "other"),
            "no stage of the pipeline has the queue \"other\"",
        ),
        (PIPELINE.to_owned(), &["--stage", "autotagg"], good.clone(), "no stage \"autotagg\""),
        (PIPELINE.to_owned(), &["--time", "10s"], good.clone(), "--time must be longer than 10s"),
        (
            PIPELINE.replace("name = \"extract\"", "name = \"extract\"\nafter = \"autotag\""),
            &[],
            good.clone(),
            "waits for whole groups",
        ),
    ] {
        let (code, _, log) = lambda(&home(&config), arguments, &event);
        assert!(code != 0 && log.contains(says), "{says}: {log}");
    }
}

/// A function: events over Lambda's protocol, answered one by one, with metrics as lines.
#[test]
fn function_answers_events_until_it_is_ended() {
    let (far, soon) =
        ("99999999999999", event(&[json!({ "chunk_key": "a" }), json!({ "chunk_key": "b", "fail": true })]));
    let events = Mutex::new(vec![("second", "{}".to_owned()), ("first", soon)]);
    let server = CapturingServer::start(move |request| match request.target.as_str() {
        "GET /2018-06-01/runtime/invocation/next" => match events.lock().unwrap().pop() {
            Some((id, event)) => {
                let head = format!(
                    "200 OK\r\nLambda-Runtime-Aws-Request-Id: {id}\r\nLambda-Runtime-Deadline-Ms: {far}"
                );
                CapturedAnswer::new(&head, event)
            }
            None => CapturedAnswer::new("410 Gone", ""),
        },
        _ => CapturedAnswer::new("202 Accepted", "{\"status\":\"OK\"}"),
    });
    let home = home(&format!("[cloudwatch]\nnamespace = \"AdobePDFProcessing\"\n{PIPELINE}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
    command.args(["pipeline", "lambda"]).current_dir(home.path()).env("HOME", home.path());
    command.env("AWS_LAMBDA_RUNTIME_API", server.addr().to_string()).env_remove("TOLLWAY_CONFIG");
    let ended = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let log = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && log.contains("it answered 410"), "Lambda ended it: {log}");
    let posts: Vec<_> =
        server.requests().into_iter().filter(|request| request.target.starts_with("POST")).collect();
    let targets: Vec<&str> =
        posts.iter().map(|request| request.target.rsplit("invocation/").next().unwrap()).collect();
    assert_eq!(targets, ["first/response", "second/error"], "{log}");
    assert_eq!(failures(&posts[0].text()), ["m1"]);
    assert!(posts[1].text().contains("not an event of SQS"), "{}", posts[1].text());
    let lines = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(lines.contains("\"AutotagSuccess\":1") && lines.contains("\"AutotagFailure\":1"), "{lines}");
}
