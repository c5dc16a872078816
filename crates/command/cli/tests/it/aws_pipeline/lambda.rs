//! `pipeline lambda`: an event on standard input, and as a function on Lambda's own protocol.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tollway::{Clock, Span};
use tollway_memory::WallClock;
use tollway_testkit::servers::{CapturedAnswer, CapturingServer, Ministack};

use super::{PIPELINE, home};
use crate::home::Home;

/// The pipeline on queues of its own.
struct Lab {
    config: String,
    autotag: String,
}

impl Lab {
    fn new() -> Self {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("lambda-{}", LABS.fetch_add(1, Ordering::Relaxed));
        let endpoint = Ministack::shared().endpoint();
        let engine = format!("sqs:?ledger={prefix}&endpoint={endpoint}&access=test:test&create=yes");
        let config = PIPELINE
            .replace("sqlite:pdf.db", &engine)
            .replace("queue = \"adobe-", &format!("queue = \"{prefix}-"));
        Self { config, autotag: format!("{prefix}-autotag-queue") }
    }

    /// The messages of the autotag queue, as the poller of Lambda receives them.
    fn event(&self) -> String {
        let url = format!("{}/000000000000/{}", Ministack::shared().endpoint(), self.autotag);
        let mut records = Vec::new();
        loop {
            let request =
                json!({ "QueueUrl": url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"] });
            let received = Ministack::shared().ask("AmazonSQS.ReceiveMessage", &request);
            let Some(messages) = received["Messages"].as_array().filter(|messages| !messages.is_empty())
            else {
                break;
            };
            records.extend(messages.iter().map(|message| self.record(message)));
        }
        json!({ "Records": records }).to_string()
    }

    fn record(&self, message: &Value) -> Value {
        let attributes = message["MessageAttributes"].as_object().cloned().unwrap_or_default().into_iter();
        let attributes = attributes.map(|(name, value)| {
            (name, json!({ "stringValue": value["StringValue"], "dataType": "String" }))
        });
        json!({
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": { "ApproximateReceiveCount": "1" },
            "messageAttributes": attributes.collect::<serde_json::Map<_, _>>(),
            "eventSource": "aws:sqs",
            "eventSourceARN": format!("arn:aws:sqs:us-east-1:000000000000:{}", self.autotag),
        })
    }

    /// Enqueues jobs by the command, and messages as another program sends them.
    fn send(&self, home: &Home, jobs: &[Value], foreign: &[Value]) {
        let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        home.write("jobs.jsonl", &lines);
        let (code, _, error) = home.run(&["pipeline", "enqueue", "jobs.jsonl"]);
        assert_eq!(code, 0, "{error}");
        let url = format!("{}/000000000000/{}", Ministack::shared().endpoint(), self.autotag);
        for body in foreign {
            let request = json!({ "QueueUrl": url, "MessageBody": body.to_string() });
            Ministack::shared().ask("AmazonSQS.SendMessage", &request);
        }
    }
}

/// An event of one message that was never in a queue.
fn event_of(queue: &str) -> String {
    json!({ "Records": [{
        "messageId": "m0", "receiptHandle": "AQEB", "body": "{\"chunk_key\": \"a\"}", "messageAttributes": {},
        "eventSource": "aws:sqs", "eventSourceARN": format!("arn:aws:sqs:us-east-1:000000000000:{queue}"),
    }] })
    .to_string()
}

/// The ids of messages whose body contains this.
fn ids_with(event: &str, part: &str) -> Vec<String> {
    let event: Value = serde_json::from_str(event).unwrap();
    let records = event["Records"].as_array().unwrap().iter();
    let with = records.filter(|record| record["body"].as_str().unwrap().contains(part));
    let mut ids: Vec<String> = with.map(|record| record["messageId"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
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

/// P1, P3: done messages are done and hand on, failed ones go back, one that the handler gives up is a dead letter; and the ledger
/// knows all of it, as with every other worker.
#[test]
fn event_is_worked_on_and_answered_by_message() {
    let lab = Lab::new();
    let home =
        home(&lab.config.replacen("tries = 1", "tries = 3\nbackoff = \"10m\"\nbackoff_max = \"10m\"", 1));
    let key = |key: &str| json!({ "chunk_key": key });
    let jobs = [
        key("a"),
        json!({ "chunk_key": "b", "fail": true }),
        json!({ "chunk_key": "c", "dead": true }),
        json!({ "chunk_key": "e", "busy": "seen" }),
    ];
    lab.send(&home, &jobs, &[key("d"), key("d")]);
    let event = lab.event();
    let (code, answer, log) = lambda(&home, &[], &event);
    assert_eq!(code, 0, "{log}");
    assert_eq!(failures(&answer), ids_with(&event, "fail"), "{log}");
    let stages = status(&home)["stages"].clone();
    let of = |state: &str| stages[0][state].as_u64().unwrap_or(0);
    assert_eq!((of("done"), of("dead"), of("retrying"), of("ready")), (3, 1, 1, 0), "{stages}");
    assert_eq!(stages[1]["ready"], 3, "{stages}");
    let (_, dead, _) = home.run(&["pipeline", "dead", "list"]);
    assert!(dead.contains("not a PDF"), "{dead}");
    // SQS may deliver a message twice: its job is done, so the handler is not called and nothing is handed on.
    let (_, answer, log) = lambda(&home, &[], &event);
    assert_eq!(failures(&answer), ids_with(&event, "fail"), "{log}");
    let (_, handed_on, _) = home.run(&["pipeline", "cancel", "--stage", "extract", "--dry-run", "--json"]);
    let handed_on: Value = serde_json::from_str(&handed_on).unwrap();
    let stages = status(&home)["stages"].clone();
    assert_eq!((&handed_on["matched"], &stages[0]["done"]), (&3.into(), &3.into()), "{stages}");
}

/// P3: a message for which there is no quota in time goes back, and no call is made for it.
#[test]
fn message_without_quota_goes_back_before_the_deadline() {
    let lab = Lab::new();
    let home = home(&lab.config.replace("100k requests / minute", "1 request / hour"));
    lab.send(&home, &["a", "b", "c"].map(|key| json!({ "chunk_key": key })), &[]);
    let (code, answer, log) = lambda(&home, &["--time", "13s"], &lab.event());
    assert_eq!(code, 0, "{log}");
    assert_eq!(failures(&answer).len(), 2, "one an hour: {answer}{log}");
    let stages = status(&home)["stages"].clone();
    assert_eq!(
        (&stages[0]["ready"], &stages[0]["done"], &stages[1]["ready"]),
        (&2.into(), &1.into(), &1.into())
    );
    let (_, usage, _) = home.run(&["usage", "adobe", "--json"]);
    let usage: Value = serde_json::from_str(&usage).unwrap();
    assert!(usage.to_string().contains("\"used\":1"), "{usage}");
}

/// A job that had the function's time and was not done is a crash: it is not tried for ever.
#[test]
fn job_that_takes_longer_than_the_function_is_a_crash() {
    let lab = Lab::new();
    let home = home(&lab.config.replacen("tries = 1", "tries = 1\ncrashes = 1", 1));
    lab.send(&home, &[json!({ "chunk_key": "a", "slow": true })], &[]);
    let event = lab.event();
    let (code, answer, log) = lambda(&home, &["--time", "13s"], &event);
    assert_eq!((code, failures(&answer).len()), (0, 1), "{log}");
    let (_, answer, log) = lambda(&home, &["--time", "13s"], &event);
    assert!(failures(&answer).is_empty(), "{log}");
    let (_, dead, _) = home.run(&["pipeline", "dead", "list"]);
    assert!(dead.contains("crash"), "{dead}");
}

/// SQS makes a dead letter of a message that was received often. Where only functions work, one of them gives its job a new message.
#[test]
fn job_whose_message_sqs_moved_gets_a_new_one() {
    let lab = Lab::new();
    let home = home(&lab.config);
    lab.send(&home, &[json!({ "chunk_key": "a" }), json!({ "chunk_key": "b" })], &[]);
    let mut event: Value = serde_json::from_str(&lab.event()).unwrap();
    let records = event["Records"].as_array_mut().unwrap();
    let moved = records.remove(usize::from(!records[0]["body"].as_str().unwrap().contains("\"a\"")));
    let queue = |name: &str| format!("{}/000000000000/{name}", Ministack::shared().endpoint());
    let attributes = moved["messageAttributes"].as_object().unwrap().iter().map(|(name, value)| {
        (name.clone(), json!({ "StringValue": value["stringValue"], "DataType": "String" }))
    });
    let dead = json!({
        "QueueUrl": queue(&lab.autotag.replace("-queue", "-dlq")), "MessageBody": moved["body"],
        "MessageAttributes": attributes.collect::<serde_json::Map<_, _>>(),
    });
    Ministack::shared().ask("AmazonSQS.SendMessage", &dead);
    let receipt = json!({ "QueueUrl": queue(&lab.autotag), "ReceiptHandle": moved["receiptHandle"] });
    Ministack::shared().ask("AmazonSQS.DeleteMessage", &receipt);
    let (code, answer, log) = lambda(&home, &[], &event.to_string());
    assert_eq!((code, failures(&answer).len()), (0, 0), "{log}");
    assert_eq!(ids_with(&lab.event(), "\"a\"").len(), 1, "{log}");
}

/// Messages of a paused stage go back at once.
#[test]
fn paused_stage_gives_its_messages_back() {
    let lab = Lab::new();
    let home = home(&lab.config);
    lab.send(&home, &[json!({ "chunk_key": "a" })], &[]);
    assert_eq!(home.run(&["pipeline", "pause", "autotag"]).0, 0);
    let (code, answer, log) = lambda(&home, &[], &lab.event());
    assert_eq!((code, failures(&answer).len()), (0, 1), "{log}");
    assert!(log.contains("the stage is paused"), "{log}");
}

#[test]
fn wrong_events_and_pipelines_are_explained() {
    let lab = Lab::new();
    let good = event_of(&lab.autotag);
    for (config, arguments, event, says) in [
        (lab.config.clone(), &[][..], "{}".to_owned(), "not an event of SQS"),
        (lab.config.clone(), &[], event_of("other"), "no stage of the pipeline has the queue \"other\""),
        (lab.config.clone(), &["--stage", "autotagg"], good.clone(), "no stage \"autotagg\""),
        (lab.config.clone(), &["--time", "10s"], good.clone(), "--time must be longer than 10s"),
        (PIPELINE.to_owned(), &[], good.clone(), "has no queues: its engine is sqlite:"),
    ] {
        let (code, _, log) = lambda(&home(&config), arguments, &event);
        assert!(code != 0 && log.contains(says), "{says}: {log}");
    }
}

/// A function: events over Lambda's protocol, answered one by one, with metrics as lines.
#[test]
fn function_answers_events_until_it_is_ended() {
    let lab = Lab::new();
    let home = home(&format!(
        "[cloudwatch]\nnamespace = \"AdobePDFProcessing\"\n{}",
        lab.config.replacen("tries = 1", "tries = 3\nbackoff = \"1h\"\nbackoff_max = \"1h\"", 1)
    ));
    lab.send(&home, &[json!({ "chunk_key": "a" }), json!({ "chunk_key": "b", "fail": true })], &[]);
    let soon = lab.event();
    let failed = ids_with(&soon, "fail");
    // A minute from now: longer than the event takes, shorter than the pause before another try.
    let far = WallClock.now().plus(Span::from_mins(1)).as_millis();
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
    assert_eq!(failures(&posts[0].text()), failed);
    assert!(posts[1].text().contains("not an event of SQS"), "{}", posts[1].text());
    let lines = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(lines.contains("\"AutotagSuccess\":1") && lines.contains("\"AutotagFailure\":1"), "{lines}");
}
