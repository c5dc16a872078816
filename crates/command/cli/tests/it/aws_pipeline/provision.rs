//! `provision aws` for a pipeline: queues on an emulator, alarms and a dashboard on a server that keeps what it is told, the
//! template by cfn-lint.

use std::process::Command;

use serde_json::{Value, json};
use tollway_testkit::servers::{Ministack, python_tool};

use super::cloudwatch_server::{CloudWatch, field, text};
use super::{PIPELINE, account, home};
use crate::home::Home;

/// A topic of this test's own name, in the account that the emulator has.
fn topic(prefix: &str) -> String {
    format!("arn:aws:sns:us-east-1:000000000000:{prefix}-alerts")
}

/// The pipeline with queues of this test's own names, and alarms at this endpoint.
fn config(prefix: &str, cloudwatch: &str) -> String {
    let pipeline = PIPELINE.replace("adobe-autotag", &format!("{prefix}-autotag"));
    let pipeline = pipeline.replace("adobe-extract", &format!("{prefix}-extract"));
    format!(
        "[cloudwatch]\nnamespace = \"AdobePDFProcessing\"\nsend = \"put\"\nendpoint = \"{cloudwatch}\"\n\
         [incidents]\ntopic = \"{}\"\n{pipeline}",
        topic(prefix)
    )
}

fn provision(home: &Home, server: &Ministack, arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<&str> = ["provision", "aws"].iter().chain(arguments).copied().collect();
    let output = home.tollway(&arguments).envs(account(&server.endpoint())).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The first word of each line, with how often it stands there.
fn states(report: &str) -> Vec<(String, usize)> {
    let mut states: Vec<(String, usize)> = Vec::new();
    for word in report.lines().filter_map(|line| line.split_whitespace().next()) {
        match states.iter_mut().find(|(known, _)| known == word) {
            Some((_, count)) => *count += 1,
            None => states.push((word.to_owned(), 1)),
        }
    }
    states
}

fn all(word: &str) -> Vec<(String, usize)> {
    // Four queues, a topic, four alarms of stages, two of the store, two of the policy, and a dashboard.
    vec![(word.to_owned(), 14)]
}

fn attributes(server: &Ministack, queue: &str) -> Value {
    let url = format!("{}/000000000000/{queue}", server.endpoint());
    server.sqs("GetQueueAttributes", &json!({ "QueueUrl": url, "AttributeNames": ["All"] }))["Attributes"]
        .clone()
}

/// P1, P2, P6: everything of the documents is made, once, and deleted again.
#[test]
fn queues_alarms_and_dashboard_are_made_and_deleted() {
    let (server, cloudwatch) = (Ministack::shared(), CloudWatch::default());
    let endpoint = cloudwatch.start();
    let home = home(&config("made", &endpoint.endpoint()));
    let (code, report, said) = provision(&home, server, &[]);
    assert_eq!((code, states(&report)), (0, all("missing")), "{report}{said}");
    let (code, report, said) = provision(&home, server, &["--apply"]);
    assert_eq!((code, states(&report)), (0, all("created")), "{report}{said}");
    for _ in 0..2 {
        let (code, report, said) = provision(&home, server, &["--apply"]);
        assert_eq!((code, states(&report)), (0, all("exists")), "{report}{said}");
    }
    let queue = attributes(server, "made-autotag-queue");
    assert_eq!(
        (&queue["VisibilityTimeout"], &queue["MessageRetentionPeriod"]),
        (&"900".into(), &"604800".into())
    );
    let redrive: Value = serde_json::from_str(queue["RedrivePolicy"].as_str().unwrap()).unwrap();
    assert!(redrive["deadLetterTargetArn"].as_str().unwrap().ends_with(":made-autotag-dlq"), "{redrive}");
    assert_eq!(redrive["maxReceiveCount"].to_string().trim_matches('"'), "10");
    assert_eq!(attributes(server, "made-autotag-dlq")["MessageRetentionPeriod"], "1209600");
    check_alarms(&cloudwatch);
    check_dashboard(&cloudwatch);
    let (code, _, said) = provision(&home, server, &["--destroy"]);
    assert!(code == 2 && said.contains("--yes"), "it does not delete without being told twice: {said}");
    let (code, report, said) = provision(&home, server, &["--destroy", "--yes"]);
    assert_eq!((code, states(&report)), (0, all("deleted")), "{report}{said}");
    assert!(cloudwatch.alarms().is_empty() && cloudwatch.dashboards().is_empty());
    let (code, report, said) = provision(&home, server, &["--destroy", "--yes"]);
    assert_eq!((code, states(&report)), (0, all("missing")), "{report}{said}");
}

/// One alarm for the dead letters of each stage at 10, and the others of the documents; all of them tell the topic.
fn check_alarms(cloudwatch: &CloudWatch) {
    let alarms = cloudwatch.alarms();
    let alarm = |name: &str| &alarms[&format!("AdobePDFProcessing-{name}")];
    for (name, metric, statistic, threshold) in [
        ("AutotagDLQAlarm", "ApproximateNumberOfMessagesVisible", "Maximum", 10.0),
        ("ExtractDLQAlarm", "ApproximateNumberOfMessagesVisible", "Maximum", 10.0),
        ("AutotagRateLimited", "AutotagRateLimited", "Sum", 1.0),
        ("ExtractRateLimited", "ExtractRateLimited", "Sum", 1.0),
        ("RateLimiterFallbackActivated", "RateLimiterFallbackActivated", "Sum", 1.0),
        ("RateLimiterStoreThrottled", "RateLimiterStoreThrottled", "Maximum", 1.0),
        ("RateLimiterVendorRefused-adobe", "RateLimiterVendorRefused", "Sum", 1.0),
        ("RateLimiterAcquisitionLatency-adobe", "RateLimiterAcquisitionLatency", "p99", 50.0),
    ] {
        let alarm = alarm(name);
        let by = [text(field(alarm, "Statistic")), text(field(alarm, "ExtendedStatistic"))].concat();
        assert_eq!(
            (text(field(alarm, "MetricName")), by),
            (metric.to_owned(), statistic.to_owned()),
            "{name}"
        );
        assert_eq!(field(alarm, "Threshold").as_float(), Some(threshold), "{name}");
        for actions in ["AlarmActions", "OKActions"] {
            assert_eq!(field(alarm, actions).as_array().unwrap(), &[topic("made").into()], "{name}");
        }
    }
    assert_eq!(alarms.len(), 8);
    let dead = format!("{:?}", field(alarm("AutotagDLQAlarm"), "Dimensions"));
    assert!(dead.contains("made-autotag-dlq"), "{dead}");
}

/// The six widgets of the documents, and those of the limiter.
fn check_dashboard(cloudwatch: &CloudWatch) {
    let dashboards = cloudwatch.dashboards();
    let body: Value = serde_json::from_str(&dashboards["AdobePDFProcessing"]).unwrap();
    let widgets = body["widgets"].as_array().unwrap();
    let (line, graphs) = widgets.split_last().unwrap();
    assert!(line["properties"]["markdown"].as_str().unwrap().contains("Made by"), "{line}");
    let titles: Vec<&str> =
        graphs.iter().map(|widget| widget["properties"]["title"].as_str().unwrap()).collect();
    let wanted = [
        "Autotag Queue Depth",
        "Extract Queue Depth",
        "Autotag DLQ Depth",
        "Extract DLQ Depth",
        "API calls per minute",
        "Success and failure",
        "Tokens available",
        "API Rate Limiting",
        "Acquisition latency",
    ];
    assert_eq!(titles, wanted);
    let region = &body["widgets"][0]["properties"]["region"];
    assert_eq!(region, "us-east-1");
}

/// A run that failed half way is continued by the next; a queue with other settings is set right.
#[test]
fn apply_goes_on_after_a_failure() {
    let (server, cloudwatch) = (Ministack::shared(), CloudWatch::default());
    let endpoint = cloudwatch.start();
    let home = home(&config("half", &endpoint.endpoint()));
    server.sqs(
        "CreateQueue",
        &json!({ "QueueName": "half-extract-queue", "Attributes": { "VisibilityTimeout": "30" } }),
    );
    let (_, report, _) = provision(&home, server, &[]);
    assert!(report.contains("half-extract-queue (its visibility timeout is 30 s)"), "{report}");
    cloudwatch.fail(Some("PutDashboard"));
    let (code, _, said) = provision(&home, server, &["--apply"]);
    assert_eq!(code, 69, "{said}");
    assert!(
        said.contains("creating the dashboard AdobePDFProcessing") && said.contains("goes on from there"),
        "{said}"
    );
    let (_, report, _) = provision(&home, server, &[]);
    assert_eq!(states(&report), [("exists".to_owned(), 13), ("missing".to_owned(), 1)], "{report}");
    cloudwatch.fail(None);
    let (code, report, said) = provision(&home, server, &["--apply"]);
    assert_eq!(
        (code, states(&report)),
        (0, vec![("exists".to_owned(), 13), ("created".to_owned(), 1)]),
        "{said}"
    );
    assert_eq!(attributes(server, "half-extract-queue")["VisibilityTimeout"], "900");
}

/// The documented number of receives is there for the asking, with a warning.
#[test]
fn documented_number_of_receives_warns() {
    let home = home(PIPELINE);
    let (code, template, said) = home.run(&["provision", "aws", "--cloudformation", "--as-documented"]);
    assert!(code == 0 && said.contains("takes a good job for a dead letter"), "{said}");
    assert!(template.contains("\"maxReceiveCount\": 3"), "{template}");
    let (_, template, said) = home.run(&["provision", "aws", "--cloudformation"]);
    assert!(template.contains("\"maxReceiveCount\": 10") && said.is_empty(), "{template}{said}");
}

/// The template describes the same, and cfn-lint has nothing to say about it.
#[test]
fn template_passes_cfn_lint() {
    let store = "url = \"dynamodb://?layout=minute&region=eu-west-1\"";
    let source = "[policies.adobe]\nsource = \"ssm:/pdf-processing/adobe-api-rpm\"";
    let limits = "limits = [\"RPM: 100k requests / minute\"]";
    let text = config("adobe", "http://127.0.0.1:1").replace("url = \"file:state\"", store);
    let text =
        text.replace("[policies.adobe]", source).replace(limits, "limits = [\"200 requests / minute\"]");
    let home = home(&text);
    let (code, template, said) = home.run(&["provision", "aws", "--cloudformation"]);
    assert_eq!(code, 0, "{said}");
    let path = home.write("template.json", &template);
    let lint = Command::new(python_tool("cfn-lint"))
        .args(["--regions", "eu-west-1", "--"])
        .arg(path)
        .output()
        .unwrap();
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    let template: Value = serde_json::from_str(&template).unwrap();
    let kinds: Vec<&str> = template["Resources"]
        .as_object()
        .unwrap()
        .values()
        .map(|one| one["Type"].as_str().unwrap())
        .collect();
    let count = |kind: &str| kinds.iter().filter(|known| **known == kind).count();
    assert_eq!(count("AWS::DynamoDB::Table") + count("AWS::SSM::Parameter"), 2);
    assert_eq!(
        (count("AWS::SQS::Queue"), count("AWS::CloudWatch::Alarm"), count("AWS::CloudWatch::Dashboard")),
        (4, 8, 1)
    );
}

/// Each role has the smallest policy: a worker makes nothing, and a provisioner reads no message.
#[test]
fn roles_have_the_smallest_policies() {
    let home = home(&config("adobe", "http://127.0.0.1:1"));
    let policy = |role: &str| {
        let (code, policy, said) = home.run(&["provision", "aws", "--iam", role]);
        assert_eq!(code, 0, "{said}");
        serde_json::from_str::<Value>(&policy).unwrap()
    };
    let allows = |policy: &Value, action: &str, resource: &str| {
        let statements = policy["Statement"].as_array().unwrap().iter();
        let has =
            |list: &Value, text: &str| list.as_array().unwrap().iter().any(|one| one.as_str() == Some(text));
        statements.clone().any(|one| has(&one["Action"], action) && has(&one["Resource"], resource))
    };
    let (queue, dead) = ("arn:aws:sqs:*:*:adobe-autotag-queue", "arn:aws:sqs:*:*:adobe-autotag-dlq");
    let worker = policy("worker");
    assert!(
        allows(&worker, "sqs:ReceiveMessage", queue) && allows(&worker, "sqs:SendMessage", dead),
        "{worker}"
    );
    // SQS itself moves messages of good jobs there.
    assert!(allows(&worker, "sqs:ReceiveMessage", dead), "{worker}");
    assert!(!worker.to_string().contains("MessageMoveTask"), "redriving is an operator's: {worker}");
    assert!(
        allows(&worker, "sns:Publish", &topic("adobe")) && allows(&worker, "cloudwatch:PutMetricData", "*"),
        "{worker}"
    );
    let condition = worker["Statement"].as_array().unwrap().iter().find_map(|one| one.get("Condition"));
    assert_eq!(condition.unwrap()["StringEquals"]["cloudwatch:namespace"], "AdobePDFProcessing");
    let operator = policy("operator");
    assert!(
        allows(&operator, "sqs:ReceiveMessage", dead) && !operator.to_string().contains("Create"),
        "{operator}"
    );
    // What a move task does is done with the rights of its caller.
    let on_dead = ["Start", "Cancel"].map(|verb| format!("sqs:{verb}MessageMoveTask"));
    let on_dead = on_dead.iter().map(String::as_str);
    let more = ["sqs:ListMessageMoveTasks", "sqs:GetQueueAttributes", "sqs:DeleteMessage"];
    for action in on_dead.chain(more) {
        assert!(allows(&operator, action, dead), "{action}: {operator}");
    }
    assert!(allows(&operator, "sqs:SendMessage", queue), "{operator}");
    let provisioner = policy("provisioner");
    assert!(allows(&provisioner, "sqs:CreateQueue", queue) && allows(&provisioner, "sqs:DeleteQueue", dead));
    assert!(!provisioner.to_string().contains("Message"), "{provisioner}");
    let alarm = "arn:aws:cloudwatch:*:*:alarm:AdobePDFProcessing-AutotagDLQAlarm";
    assert!(allows(&provisioner, "cloudwatch:PutMetricAlarm", alarm), "{provisioner}");
}
