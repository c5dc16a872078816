//! `provision aws --destroy` deletes what `--apply` made, and nothing else.

use serde_json::json;
use tollway_testkit::servers::Ministack;

use super::cloudwatch_server::CloudWatch;
use super::{PIPELINE, account, home};
use crate::home::Home;

/// Everything that can be provisioned, under names with this prefix.
fn config(prefix: &str, cloudwatch: &str) -> String {
    let pipeline = PIPELINE
        .replace("queue = \"adobe-", &format!("queue = \"{prefix}-"))
        .replace("file:state", &format!("dynamodb://{prefix}-limits"))
        .replace("sqlite:pdf.db", &format!("sqs:?ledger={prefix}-jobs"))
        .replace("[policies.adobe]", &format!("[policies.adobe]\nsource = \"ssm:/{prefix}/rpm\""));
    format!(
        "[cloudwatch]\nnamespace = \"{prefix}\"\nsend = \"put\"\nendpoint = \"{cloudwatch}\"\n\
         [incidents]\ntopic = \"arn:aws:sns:us-east-1:000000000000:{prefix}-alerts\"\n{pipeline}"
    )
}

fn provision(home: &Home, arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<&str> = ["provision", "aws"].iter().chain(arguments).copied().collect();
    let endpoint = Ministack::shared().endpoint();
    let output = home.tollway(&arguments).envs(account(&endpoint)).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// What a report says of each resource: its first word, by kind and name.
fn states(report: &str) -> Vec<(String, String)> {
    let mut states: Vec<(String, String)> = report
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (state, kind, name) = (words.next()?, words.next()?, words.next()?);
            Some((format!("{kind} {name}"), state.to_owned()))
        })
        .collect();
    states.sort();
    states
}

fn of_state(report: &str, wanted: &str) -> Vec<String> {
    states(report).into_iter().filter(|(_, state)| state == wanted).map(|(name, _)| name).collect()
}

/// What another tool has made: a table, a queue, a parameter, a topic, an alarm and a dashboard.
fn make_others(prefix: &str, cloudwatch: &CloudWatch) -> Vec<String> {
    let server = Ministack::shared();
    let table = json!({
        "TableName": format!("{prefix}-limits"), "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{ "AttributeName": "key", "KeyType": "HASH" }],
        "AttributeDefinitions": [{ "AttributeName": "key", "AttributeType": "S" }],
    });
    server.ask("DynamoDB_20120810.CreateTable", &table);
    server.sqs("CreateQueue", &json!({ "QueueName": format!("{prefix}-autotag-dlq") }));
    let parameter = json!({ "Name": format!("/{prefix}/rpm"), "Value": "90", "Type": "String" });
    server.ask("AmazonSSM.PutParameter", &parameter);
    server.topic_with_queue(&format!("{prefix}-alerts"));
    let alarm = format!("{prefix}-AutotagDLQAlarm");
    cloudwatch.keep(&alarm, prefix);
    let mut others = vec![
        format!("table {prefix}-limits"),
        format!("queue {prefix}-autotag-dlq"),
        format!("parameter /{prefix}/rpm"),
        format!("topic {prefix}-alerts"),
        format!("alarm {alarm}"),
        format!("dashboard {prefix}"),
    ];
    others.sort();
    others
}

/// A4: what was there before `--apply` is kept, with what is in it, although `--apply` completed or corrected it; then only its name
/// deletes it.
#[test]
fn only_what_apply_made_is_deleted() {
    let cloudwatch = CloudWatch::default();
    let endpoint = cloudwatch.start();
    let home = home(&config("kept", &endpoint.endpoint()));
    let others = make_others("kept", &cloudwatch);
    let (code, report, said) = provision(&home, &["--apply"]);
    assert_eq!(code, 0, "{report}{said}");
    let (code, report, said) = provision(&home, &["--destroy", "--yes"]);
    assert_eq!((code, of_state(&report, "kept")), (0, others.clone()), "{report}{said}");
    assert!(said.contains("--destroy --all NAME"), "{said}");
    let deleted = of_state(&report, "deleted");
    assert_eq!(deleted.len() + others.len(), states(&report).len(), "{report}");
    assert!(deleted.contains(&"table kept-jobs".to_owned()), "{report}");
    let (_, report, _) = provision(&home, &[]);
    let missing = of_state(&report, "missing");
    assert_eq!(missing, deleted, "{report}");

    let (code, _, said) = provision(&home, &["--destroy", "--yes", "--all", "kept-limit"]);
    assert!(code == 2 && said.contains("kept-limits"), "a wrong name is an error: {said}");
    let (code, report, said) =
        provision(&home, &["--destroy", "--yes", "--all", "kept-limits", "--all", "kept-alerts"]);
    let deleted = of_state(&report, "deleted");
    assert_eq!((code, deleted), (0, vec!["table kept-limits".into(), "topic kept-alerts".into()]), "{said}");
    assert_eq!(of_state(&report, "kept").len(), others.len() - 2, "{report}");
}

/// A run that fails half way has marked what it made, so that a later `--destroy` finds it.
#[test]
fn half_of_an_apply_is_deleted() {
    let cloudwatch = CloudWatch::default();
    let endpoint = cloudwatch.start();
    let home = home(&config("halved", &endpoint.endpoint()));
    cloudwatch.fail(Some("PutDashboard"));
    assert_eq!(provision(&home, &["--apply"]).0, 69);
    cloudwatch.fail(None);
    let (code, report, said) = provision(&home, &["--destroy", "--yes"]);
    assert_eq!((code, of_state(&report, "missing")), (0, vec!["dashboard halved".to_owned()]), "{said}");
    assert!(of_state(&report, "kept").is_empty(), "{report}");
}
