//! The printed IAM policies, compared with the calls of a whole run: no call is refused, and no right is without a use.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollway_testkit::servers::{CapturingServer, Ministack, MoveTaskFront, Right, UsedRights};

use super::cloudwatch_server::{CloudWatch, field, text};
use super::{PIPELINE, account, home};
use crate::home::Home;

/// Rights for what a test cannot do, with who does it.
const OTHERWISE_USED: [&str; 2] = [
    // `aws ssm put-parameter`, which changes a limit.
    "ssm:PutParameter",
    // Ctrl-C during a move task: `move_task.rs`.
    "sqs:CancelMessageMoveTask",
];

/// A pipeline with everything that has rights, under names of this test's own.
struct Lab {
    home: Home,
    rights: UsedRights,
    cloudwatch: CapturingServer,
    /// How many of its requests were looked at.
    seen: std::cell::Cell<usize>,
}

impl Lab {
    fn new() -> Self {
        // Two policies of other units: a job that used fewer tokens than it took changes one account of the two.
        let limits = "limits = [\"RPM: 100k requests / minute\"]\nsource = \"ssm:/rights/rpm\"\n[policies.words]\nlimits = [\"1M tokens / minute\"]";
        let take = "take = { adobe = { requests = 1 }, words = { tokens = 100 } }";
        let pipeline = PIPELINE
            .replace("limits = [\"RPM: 100k requests / minute\"]", limits)
            .replace("take = { adobe = { requests = 1 } }", take)
            .replace("file:state", "dynamodb://rights-limits?deadline=20s")
            .replace("sqlite:pdf.db", "sqs:?ledger=rights-jobs&wait=1s")
            .replace("queue = \"adobe-", "queue = \"rights-");
        let front = MoveTaskFront::to(Ministack::shared());
        let (rights, cloudwatch) = (UsedRights::of(front.addr()), CloudWatch::default().start());
        let topic = "arn:aws:sns:us-east-1:000000000000:rights-alerts";
        let endpoint = cloudwatch.endpoint();
        let config = format!(
            "[cloudwatch]\nnamespace = \"Rights\"\nsend = \"put\"\nendpoint = \"{endpoint}\"\n[incidents]\ntopic = \"{topic}\"\n{pipeline}"
        );
        Self { home: home(&config), rights, cloudwatch, seen: 0.into() }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let (code, said) = self.run_to_end(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    }

    /// A run that leaves dead letters has an exit code of its own.
    fn run_to_end(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.home.tollway(arguments).envs(account(&self.rights.endpoint())).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// What was used since this was last called, at CloudWatch, too.
    fn used(&self) -> BTreeSet<Right> {
        let requests = self.cloudwatch.requests();
        let new = &requests[self.seen.replace(requests.len())..];
        let mut used = self.rights.take();
        used.extend(new.iter().flat_map(|request| {
            let action = request.target.rsplit('/').next().unwrap();
            let body: ciborium::Value = ciborium::from_reader(&request.body[..]).unwrap();
            let tags = field(&body, "Tags").is_array().then_some("TagResource");
            let resource = cloudwatch_resource(action, &body);
            let actions = [Some(action), tags].into_iter().flatten();
            actions.map(|action| (format!("cloudwatch:{action}"), resource.clone())).collect::<Vec<_>>()
        }));
        used
    }

    /// The rights of a role, as its printed policy has them.
    fn allowed(&self, role: &str) -> BTreeSet<Right> {
        let policy: Value = serde_json::from_str(&self.run(&["provision", "aws", "--iam", role])).unwrap();
        let texts = |list: &Value| {
            list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let statements = policy["Statement"].as_array().unwrap().iter();
        let rights = statements.flat_map(|statement| {
            let resources = texts(&statement["Resource"]);
            texts(&statement["Action"]).into_iter().flat_map(move |action| {
                resources.clone().into_iter().map(move |arn| (action.clone(), end_of(&arn)))
            })
        });
        rights.collect()
    }

    fn enqueue(&self, jobs: &[Value]) {
        let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        self.home.write("jobs.jsonl", lines);
        self.run(&["pipeline", "enqueue", "jobs.jsonl"]);
    }

    /// An event of Lambda without messages of this pipeline: between events, it looks for messages that SQS has moved.
    fn lambda(&self) {
        let event = json!({ "Records": [{
            "messageId": "m0", "receiptHandle": "AQEB", "body": "{\"chunk_key\": \"from-lambda\"}",
            "messageAttributes": {}, "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:rights-autotag-queue",
        }] });
        let mut command = self.home.tollway(&["pipeline", "lambda"]);
        command.envs(account(&self.rights.endpoint())).env_remove("AWS_LAMBDA_RUNTIME_API");
        let output = command.write_stdin(event.to_string()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn cloudwatch_resource(action: &str, body: &ciborium::Value) -> String {
    let of = |name: &str| text(field(body, name));
    let first = |name: &str| field(body, name).as_array().map(|list| text(&list[0])).unwrap_or_default();
    match action {
        "PutMetricAlarm" => format!("alarm:{}", of("AlarmName")),
        "DeleteAlarms" => format!("alarm:{}", first("AlarmNames")),
        "ListTagsForResource" => format!("alarm:{}", of("ResourceARN").rsplit(':').next().unwrap()),
        "GetDashboard" | "PutDashboard" => format!("dashboard/{}", of("DashboardName")),
        "DeleteDashboards" => format!("dashboard/{}", first("DashboardNames")),
        _ => "*".to_owned(),
    }
}

/// `arn:aws:dynamodb:*:*:table/limits`: `table/limits`.
fn end_of(arn: &str) -> String {
    arn.splitn(6, ':').last().unwrap().to_owned()
}

/// Both ways: what was used is allowed, and each allowed action was used.
fn compare(role: &str, allowed: &BTreeSet<Right>, used: &BTreeSet<Right>) {
    let refused: Vec<&Right> = used.difference(allowed).collect();
    assert!(refused.is_empty(), "a {role} would be refused {refused:?}");
    let actions = |rights: &BTreeSet<Right>| rights.iter().map(|(action, _)| action.clone()).collect();
    let (allowed, mut used): (BTreeSet<String>, BTreeSet<String>) = (actions(allowed), actions(used));
    used.extend(OTHERWISE_USED.map(str::to_owned));
    let unused: Vec<&String> = allowed.difference(&used).collect();
    assert!(unused.is_empty(), "a {role} does not need {unused:?}");
}

/// What another program does to the queues, around the recorder: SQS itself moves a message to the dead letters.
fn move_to_dead_letters(key: &str) {
    let server = Ministack::shared();
    let queue = |name: &str| format!("{}/000000000000/rights-autotag-{name}", server.endpoint());
    let receive = json!({
        "QueueUrl": queue("queue"), "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"],
        "VisibilityTimeout": 1,
    });
    let messages = server.sqs("ReceiveMessage", &receive)["Messages"].clone();
    let key_of = |message: &Value| message["MessageAttributes"]["tollway-key"]["StringValue"].clone();
    let message = messages.as_array().unwrap().iter().find(|message| key_of(message) == key).unwrap();
    let attributes = &message["MessageAttributes"];
    let dead = json!({
        "QueueUrl": queue("dlq"), "MessageBody": message["Body"], "MessageAttributes": attributes,
    });
    server.sqs("SendMessage", &dead);
    let handle = json!({ "QueueUrl": queue("queue"), "ReceiptHandle": message["ReceiptHandle"] });
    server.sqs("DeleteMessage", &handle);
}

/// Everything that a worker does: jobs that are done, with many outputs, in a group, dead, and moved by SQS.
fn work(lab: &Lab) {
    lab.enqueue(&[json!({ "key": "moved" })]);
    move_to_dead_letters("moved");
    lab.enqueue(&[
        json!({ "key": "dead", "dead": 1 }),
        json!({ "key": "many", "job_id": "g", "outputs": 60, "used": { "tokens": 80 } }),
        json!({ "key": "busy", "busy": "seen" }),
    ]);
    lab.run_to_end(&["pipeline", "run", "--stage", "autotag", "--jobs", "3"]);
    lab.lambda();
    lab.run_to_end(&["pipeline", "run"]);
    // Its message stands among the dead letters, and is looked at with those that SQS moves.
    lab.lambda();
    lab.run(&["take", "adobe"]);
}

/// A person's commands.
fn operate(lab: &Lab) {
    for command in [
        &["pipeline", "status"][..],
        &["pipeline", "dead", "list"],
        &["pipeline", "pause", "autotag"],
        &["pipeline", "resume", "autotag"],
        &["pipeline", "dead", "redrive", "--all", "--move-task"],
        &["usage"],
        &["limit", "get"],
        &["limit", "set", "words.tokens_per_minute", "900k"],
        &["doctor"],
    ] {
        lab.run(command);
    }
}

/// P2: the least rights of each role, and no less.
#[test]
fn policies_are_the_calls_of_a_whole_run() {
    let lab = Lab::new();
    let server = Ministack::shared();
    // One that is to be changed.
    server.sqs("CreateQueue", &json!({ "QueueName": "rights-extract-queue" }));
    lab.run(&["provision", "aws", "--apply"]);
    let mut provisioned = lab.used();
    work(&lab);
    let worked = lab.used();
    operate(&lab);
    let operated = lab.used();
    lab.run(&["provision", "aws", "--destroy", "--yes"]);
    provisioned.extend(lab.used());
    let queue = format!("{}/000000000000/rights-extract-queue", server.endpoint());
    server.sqs("DeleteQueue", &json!({ "QueueUrl": queue }));

    compare("provisioner", &lab.allowed("provisioner"), &provisioned);
    compare("worker", &lab.allowed("worker"), &worked);
    compare("operator", &lab.allowed("operator"), &operated.union(&worked).cloned().collect());
}

/// A job whose message SQS has moved is done in the end, with the rights that the policy prints: those of the worker are enough.
#[test]
fn worker_may_take_back_what_sqs_moved() {
    let lab = Lab::new();
    let allowed = lab.allowed("worker");
    for action in ["ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage", "SendMessage"] {
        for queue in ["rights-autotag-dlq", "rights-autotag-queue"] {
            assert!(allowed.contains(&(format!("sqs:{action}"), queue.to_owned())), "{action} {queue}");
        }
    }
}
