//! Errors of AWS: each names the table, queue, topic or parameter and its place, once, with the advice that helps.

use std::time::Duration;

use tollway_testkit::faults::{AwsFront, Fault, FaultProxy, Treatment};
use tollway_testkit::servers::{DynamoServer, Ministack};

use super::{PIPELINE, account, home};
use crate::home::Home;

fn run(home: &Home, endpoint: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = home.tollway(arguments).envs(account(endpoint)).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Output breaks lines, and tests look for sentences.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const LIMITS: &str = "[store]\nurl = \"dynamodb://limits\"\n[policies.adobe]\nlimits = [\"200 requests / minute\"]\nwhen_store_fails = \"closed\"\n";

/// A6: a service that fails for a moment, or is throttled, does not end a run.
#[test]
fn provision_repeats_what_failed_for_a_moment() {
    let tables = DynamoServer::start();
    let front = AwsFront::to(tables.addr());
    let endpoint = format!("http://{}", front.addr());
    let home = Home::with_config(LIMITS);
    front.next(2, "DescribeTable", Treatment::Unavailable);
    front.next(1, "CreateTable", Treatment::Throttled);
    // Its answer is lost, so the table exists when it is created again.
    front.next(1, "CreateTable", Treatment::Lost);
    front.next(1, "UpdateTimeToLive", Treatment::Unavailable);
    let (code, report, said) = run(&home, &endpoint, &["provision", "aws", "--apply"]);
    assert!(code == 0 && report.contains("created     table limits"), "{report}{said}");
    let (code, report, said) = run(&home, &endpoint, &["provision", "aws"]);
    assert!(code == 0 && report.contains("exists      table limits"), "{report}{said}");
}

/// The timeouts of takes are not those of provisioning: creating a table takes AWS longer than a take may wait.
#[test]
fn provision_waits_for_a_slow_service() {
    let tables = DynamoServer::start();
    let slow = FaultProxy::to(tables.addr());
    slow.set(Fault::Latency { fixed: Duration::from_millis(650), jitter: Duration::ZERO });
    let home = Home::with_config(LIMITS);
    let endpoint = format!("http://{}", slow.addr());
    let (code, report, said) = run(&home, &endpoint, &["provision", "aws", "--apply"]);
    assert!(code == 0 && report.contains("created     table limits"), "{report}{said}");
}

#[test]
fn provision_says_what_failed_where_and_what_helps() {
    let tables = DynamoServer::start();
    let front = AwsFront::to(tables.addr());
    let endpoint = format!("http://{}", front.addr());
    let home = Home::with_config(LIMITS);
    for (said, advice) in [
        (Treatment::Expired, "log in again (`aws sso login`)"),
        (Treatment::Denied, "`tollway provision aws --iam provisioner`"),
    ] {
        front.clear();
        front.always("DescribeTable", said);
        let (code, _, error) = run(&home, &endpoint, &["provision", "aws"]);
        let error = one_line(&error);
        assert!(code == 69 && error.contains(advice), "{said:?}: {error}");
        let what = format!("reading the table limits at {endpoint}");
        assert_eq!(error.matches(&what).count(), 1, "{said:?}: {error}");
    }
}

/// A profile that does not exist is passed over by the SDK, which then finds no credentials.
#[test]
fn unknown_profile_is_named() {
    let home = Home::with_config(LIMITS);
    let mut command = home.tollway(&["provision", "aws"]);
    let environment = [
        ("AWS_PROFILE", "stagng"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
    ];
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"] {
        command.env_remove(name);
    }
    let output = command.envs(environment).output().unwrap();
    let error = one_line(&String::from_utf8(output.stderr).unwrap());
    assert!(error.contains("no credentials") && error.contains("AWS_PROFILE is \"stagng\""), "{error}");
}

/// G7: the missing table, a missing right and an expired session, with a take: each is said once.
#[test]
fn take_says_what_failed_where_and_what_helps() {
    let tables = DynamoServer::start();
    let front = AwsFront::to(tables.addr());
    let endpoint = format!("http://{}", front.addr());
    let home = Home::with_config(LIMITS);
    let take = || {
        let (code, _, error) = run(&home, &endpoint, &["take", "adobe"]);
        (code, one_line(&error))
    };
    let (code, error) = take();
    assert!(code == 69 && error.contains("`tollway provision aws --apply`"), "{error}");
    assert_eq!(error.matches(&format!("table limits at {endpoint}")).count(), 1, "{error}");
    assert_eq!(run(&home, &endpoint, &["provision", "aws", "--apply"]).0, 0);
    for (said, advice) in
        [(Treatment::Denied, "`tollway provision aws --iam worker`"), (Treatment::Expired, "log in again")]
    {
        front.clear();
        front.always("Item", said);
        let (code, error) = take();
        assert!(code == 69 && error.contains(advice), "{said:?}: {error}");
        assert_eq!(error.matches(advice).count(), 1, "{said:?}: {error}");
    }
}

/// P1: a pipeline whose queues and ledger are missing ends with one error, and `doctor` names each of them.
#[test]
fn missing_queues_ledger_and_topic_are_named() {
    let endpoint = Ministack::shared().endpoint();
    let topic = "arn:aws:sns:us-east-1:000000000000:nowhere-alerts";
    let config = PIPELINE
        .replace("queue = \"adobe-", "queue = \"nowhere-")
        .replace("sqlite:pdf.db", "sqs:?ledger=nowhere-jobs");
    let home = home(&format!("[incidents]\ntopic = \"{topic}\"\n{config}"));
    let (code, _, error) = run(&home, &endpoint, &["pipeline", "run"]);
    let error = one_line(&error);
    assert!(code != 0 && error.contains("nowhere-"), "{error}");
    assert_eq!(error.matches("`tollway provision aws --apply` or create=yes").count(), 1, "{error}");
    assert!(error.contains(&format!(" at {endpoint}")), "{error}");

    let (code, report, said) = run(&home, &endpoint, &["doctor"]);
    let report = one_line(&report);
    assert_eq!(code, 1, "{report}{said}");
    for name in [
        "table nowhere-jobs",
        "queue nowhere-autotag-queue",
        "queue nowhere-extract-dlq",
        "topic nowhere-alerts",
    ] {
        assert!(report.contains(&format!("the {name} does not exist [aws-missing]")), "{name}: {report}");
    }
    assert!(!report.contains("pipeline-unreachable"), "the ledger was said to be missing: {report}");
    let (code, _, said) = run(&home, &endpoint, &["provision", "aws", "--apply"]);
    assert_eq!(code, 0, "{said}");
    let (_, report, said) = run(&home, &endpoint, &["doctor"]);
    assert!(!report.contains("aws-"), "{report}{said}");
}

/// P6: a topic that does not exist is told at the start, and not with the first alarm.
#[test]
fn missing_topic_is_told_at_the_start() {
    let endpoint = Ministack::shared().endpoint();
    let topic = "arn:aws:sns:us-east-1:000000000000:not-yet-made";
    let home = home(&format!("[incidents]\ntopic = \"{topic}\"\n{PIPELINE}"));
    super::enqueue(&home, 1..=1, "");
    let (code, _, log) = run(&home, &endpoint, &["pipeline", "run"]);
    let told = format!("the topic {topic} does not exist");
    assert!(code == 0 && one_line(&log).contains(&told), "{log}");
    let config = format!("[incidents]\ntopic = \"{topic}\"\n[policies.adobe]\nlimits = [\"1 / minute\"]\n");
    let home = Home::with_config(&config);
    assert_eq!(run(&home, &endpoint, &["provision", "aws", "--apply"]).0, 0);
    let (_, report, said) = run(&home, &endpoint, &["provision", "aws"]);
    assert!(report.contains("exists      topic not-yet-made"), "{report}{said}");
}
