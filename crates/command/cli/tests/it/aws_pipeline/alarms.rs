//! Alarms of a running pipeline, over SNS to a queue.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tollway_testkit::servers::Ministack;

use super::{PIPELINE, account, enqueue, home};

/// P6: the alarm at ten dead letters is told once, and so is its end, beside the end of the backlog.
#[test]
fn dead_letters_are_told_over_sns_with_their_end() {
    let server = Ministack::shared();
    let topic = server.topic_with_queue("pipeline-alarms");
    let home = home(&format!("[incidents]\ntopic = \"{topic}\"\n{PIPELINE}"));
    enqueue(&home, 1..=10, ", \"fail\": true");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
    command.args(["pipeline", "run", "--stay"]).current_dir(home.path()).env("HOME", home.path());
    command.envs(account(&server.endpoint())).env_remove("TOLLWAY_CONFIG");
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut told: Vec<Value> = Vec::new();
    let mut wait_for = |kind: &str| {
        while !told.iter().any(|event| event["event"] == kind) {
            let new = server.take_messages("pipeline-alarms");
            told.extend(new.iter().map(|body| serde_json::from_str::<Value>(body).unwrap()));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for("alarm");
    let (code, _, error) = home.run(&["pipeline", "dead", "drop", "--all", "--yes"]);
    assert_eq!(code, 0, "{error}");
    assert!(log.by_ref().any(|line| line.contains("alarm is over")), "the pipeline ended");
    // The event is held back for a minute after the alarm's; the end of the process sends it at once.
    let sent = Command::new("kill").args(["-TERM", &run.id().to_string()]).status().unwrap();
    assert!(sent.success());
    log.for_each(drop);
    run.wait().unwrap();
    wait_for("alarm_over");
    let of = |kind: &str| told.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let (raised, over) = (of("alarm"), of("alarm_over"));
    assert_eq!((raised.len(), over.len()), (1, 1), "{told:?}");
    assert_eq!(
        (&raised[0]["alarm"]["alarm"], &raised[0]["alarm"]["stage"]),
        (&"dead_letters".into(), &"autotag".into())
    );
    assert_eq!(over[0]["alarm_over"]["alarm"], "dead_letters");
}

/// G11: a refusal of the vendor, although the call had a permit, is told once with its evidence.
#[test]
fn refusal_of_the_vendor_is_an_incident_over_sns() {
    let server = Ministack::shared();
    let topic = server.topic_with_queue("pipeline-incidents");
    let home = home(&format!("[incidents]\ntopic = \"{topic}\"\n{PIPELINE}"));
    enqueue(&home, 1..=3, ", \"busy\": \"seen\"");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
    command.args(["pipeline", "run"]).current_dir(home.path()).env("HOME", home.path());
    command.envs(account(&server.endpoint())).env_remove("TOLLWAY_CONFIG");
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let told: Vec<Value> = server
        .take_messages("pipeline-incidents")
        .iter()
        .map(|body| serde_json::from_str(body).unwrap())
        .filter(|event: &Value| event["event"] == "incident")
        .collect();
    let [told] = &told[..] else { panic!("{told:?}") };
    let incident = &told["incident"];
    assert_eq!((&told["count"], &incident["policy"]), (&1.into(), &"adobe".into()), "{told}");
    assert_eq!(incident["limits"][0]["name"], "RPM", "{told}");
    assert!(!incident["recent"].as_array().unwrap().is_empty(), "{told}");
    let (_, listed, _) = home.run(&["incidents", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap()["found"], 1, "{listed}");
}

#[test]
fn topic_that_is_no_arn_is_pointed_at() {
    let (code, _, error) =
        home(&format!("[incidents]\ntopic = \"alerts\"\n{PIPELINE}")).run(&["policy", "check"]);
    assert!(code == 78 && error.contains(":2:") && error.contains("the ARN of a topic"), "{error}");
}
