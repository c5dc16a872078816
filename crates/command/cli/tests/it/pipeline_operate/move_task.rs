//! Dead letters that SQS itself moves back. No emulator does: a proxy stands in for AWS.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tollway_pipeline::{EngineUrl, State};
use tollway_sqs::SqsEngine;
use tollway_testkit::servers::{Ministack, MoveTaskFront};

use super::lab::{Jobs, Lab, UNGATED, job, signal, until};
use crate::terminal::{Terminal, tollway};

/// How many dead letters each stage has.
const AUTOTAG: usize = 3;
const EXTRACT: usize = 2;

/// A pipeline on SQS with dead letters in two stages.
struct Filled {
    lab: Lab,
    front: MoveTaskFront,
    url: String,
    ledger: String,
}

impl Filled {
    fn new() -> Self {
        static LEDGERS: AtomicU32 = AtomicU32::new(0);
        let front = MoveTaskFront::to(Ministack::shared());
        let ledger = format!("moved-{}", LEDGERS.fetch_add(1, Ordering::Relaxed));
        let endpoint = front.endpoint();
        let url = format!("sqs:?ledger={ledger}&endpoint={endpoint}&access=test:test&create=yes&wait=1s");
        let lab = Lab::with_config(&UNGATED.replace("sqlite:pdf.db", &url));
        let filled = Self { lab, front, url, ledger };
        let jobs = filled.jobs();
        for (stage, count) in [("autotag", AUTOTAG), ("extract", EXTRACT)] {
            for n in 0..count {
                jobs.kill(job(stage, &format!("{stage}-{n}")), stage, "HTTP 500", "<html>");
            }
            filled.set_redrive_policy(stage);
        }
        drop(jobs);
        filled
    }

    fn jobs(&self) -> Jobs<'_> {
        self.lab.jobs_of(Arc::new(SqsEngine::open(&EngineUrl::parse(&self.url).unwrap()).unwrap()))
    }

    fn arn(&self, queue: &str) -> String {
        format!("arn:aws:sqs:us-east-1:000000000000:{}-{queue}", self.ledger)
    }

    /// As `provision aws` does.
    fn set_redrive_policy(&self, stage: &str) {
        let policy =
            json!({ "deadLetterTargetArn": self.arn(&format!("{stage}-dead")), "maxReceiveCount": 20 });
        self.set_attributes(stage, &json!({ "RedrivePolicy": policy.to_string() }));
    }

    fn set_attributes(&self, stage: &str, attributes: &Value) {
        let server = Ministack::shared();
        let queue = format!("{}/000000000000/{}-{stage}", server.endpoint(), self.ledger);
        server.sqs("SetQueueAttributes", &json!({ "QueueUrl": queue, "Attributes": attributes }));
    }

    fn starts(&self) -> Vec<Value> {
        self.front.asked("StartMessageMoveTask")
    }
}

/// Claims jobs of a stage until there are this many; their keys, sorted, and how often they have failed.
fn claimed(jobs: &Jobs<'_>, stage: &str, count: usize) -> Vec<(String, u32)> {
    let mut claimed = Vec::new();
    until("all are claimed", || {
        claimed.extend(jobs.claim(stage, 10).into_iter().map(|one| (one.job.key, one.job.failures)));
        claimed.len() >= count
    });
    claimed.sort();
    claimed
}

/// P7: one task for each stage, and every dead letter is a job with all its tries again.
#[test]
fn move_tasks_redrive_the_dead_letters_of_two_stages() {
    let filled = Filled::new();
    let lab = &filled.lab;
    let dry = lab.ok(&["dead", "redrive", "--all", "--move-task", "--dry-run"]);
    assert_eq!((dry.as_str(), filled.starts().len()), ("would move back 5 dead letters\n", 0));
    let (exit, said, notes) = lab.run(&["dead", "redrive", "--all", "--move-task"]);
    assert_eq!((exit, said.as_str()), (0, "moved back 5 dead letters\n"), "{notes}");
    assert!(notes.contains("until a worker claims it") && !notes.contains("found no message"), "{notes}");
    let expected = ["autotag", "extract"].map(|stage| {
        let source = filled.arn(&format!("{stage}-dead"));
        json!({ "SourceArn": source, "DestinationArn": filled.arn(stage) })
    });
    assert_eq!(filled.starts(), expected);
    let jobs = filled.jobs();
    for (stage, count) in [("autotag", AUTOTAG), ("extract", EXTRACT)] {
        let all: Vec<_> = (0..count).map(|n| (format!("{stage}-{n}"), 0)).collect();
        assert_eq!(claimed(&jobs, stage, count), all);
    }
    assert!(jobs.in_state(State::Dead).is_empty());
    assert_eq!(lab.ok(&["dead", "redrive", "--all", "--move-task"]), "no dead letters match\n");
}

/// A stage alone, with the fields of every redrive; what has no message is named.
#[test]
fn move_task_of_one_stage_leaves_the_other() {
    let filled = Filled::new();
    let lab = &filled.lab;
    let command = ["dead", "redrive", "--stage", "extract", "--move-task"];
    let dry = lab.json(&[&command[..], &["--dry-run"]].concat());
    assert_eq!(dry, json!({ "dry_run": true, "matched": 2, "changed": 0, "states": { "dead": 2 } }));
    let moved = lab.json(&command);
    assert_eq!(moved, json!({ "dry_run": false, "matched": 2, "changed": 2, "interrupted": false }));
    assert_eq!(filled.starts().len(), 1);
    // The ledger has them as dead letters until they are claimed.
    let (exit, said, notes) = lab.run(&command);
    assert_eq!((exit, said.as_str()), (0, "moved back 0 dead letters\n"), "{notes}");
    assert!(notes.contains("SQS found no message of 2 dead letters"), "{notes}");
    let jobs = filled.jobs();
    assert_eq!(claimed(&jobs, "extract", EXTRACT).len(), EXTRACT);
    assert_eq!(jobs.in_state(State::Dead).len(), AUTOTAG);
}

#[test]
fn rate_of_a_move_task_is_passed_on_in_messages_a_second() {
    let filled = Filled::new();
    let redrive = |stage: &str, rate: &str| {
        filled.lab.run(&["dead", "redrive", "--stage", stage, "--move-task", "--rate", rate])
    };
    let (exit, _, error) = redrive("autotag", "501 / second");
    assert_eq!((exit, filled.starts().len()), (2, 0), "{error}");
    assert!(error.contains("at most 500 messages a second"), "{error}");
    let (exit, _, notes) = redrive("autotag", "18059 / minute");
    assert_eq!(exit, 0, "{notes}");
    let (exit, _, notes) = redrive("extract", "2 / day");
    assert_eq!(exit, 0, "{notes}");
    assert!(notes.contains("at least 1 message a second"), "{notes}");
    let rates: Vec<_> =
        filled.starts().iter().map(|start| start["MaxNumberOfMessagesPerSecond"].clone()).collect();
    assert_eq!(rates, [300, 1]);
}

#[test]
fn move_task_is_refused_with_filters_and_on_other_engines() {
    let lab = Lab::with_config(UNGATED);
    for filter in [
        &["--id", "1"][..],
        &["--key", "a"],
        &["--group", "g"],
        &["--error", "timeout"],
        &["--all", "--error", "timeout"],
        &["--all", "--limit", "3"],
    ] {
        let (exit, _, error) = lab.run(&[&["dead", "redrive", "--move-task"], filter].concat());
        assert_eq!(exit, 2, "{filter:?}");
        assert!(error.contains("knows no filter") && error.contains("leave --move-task out"), "{error}");
    }
    let (exit, _, error) = lab.run(&["dead", "redrive", "--all", "--move-task"]);
    assert_eq!(exit, 2);
    assert!(error.contains("only SQS has move tasks") && error.contains("sqlite:"), "{error}");
}

#[test]
fn failed_move_task_shows_its_reason() {
    let filled = Filled::new();
    filled.front.fail("AWS.SimpleQueueService.NonExistentQueue");
    let (exit, _, error) = filled.lab.run(&["dead", "redrive", "--stage", "autotag", "--move-task"]);
    assert_eq!(exit, 69, "{error}");
    // It is wrapped.
    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = "stage autotag: the move task failed: AWS.SimpleQueueService.NonExistentQueue";
    assert!(error.contains(reason) && error.contains("moved back 1 dead letter of 3"), "{error}");
}

/// A queue that no redrive policy names is no source: the error says what to do, and no other task goes on.
#[test]
fn dead_letter_queue_without_a_redrive_policy_is_named() {
    let filled = Filled::new();
    filled.set_attributes("extract", &json!({ "RedrivePolicy": "" }));
    filled.front.hold();
    let (exit, _, error) = filled.lab.run(&["dead", "redrive", "--all", "--move-task"]);
    assert_eq!(exit, 69, "{error}");
    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(error.contains(&format!("{}-extract-dead", filled.ledger)), "{error}");
    assert!(error.contains("provision aws --apply") && error.contains("leave --move-task out"), "{error}");
    assert_eq!(filled.front.asked("CancelMessageMoveTask").len(), 1);
}

/// The task of a command that was killed goes on. The same command follows it, and Ctrl-C cancels it.
#[test]
fn running_move_task_is_followed_and_cancelled() {
    let filled = Filled::new();
    let lab = &filled.lab;
    filled.front.hold();
    let command = ["dead", "redrive", "--stage", "autotag", "--move-task"];
    let stderr = lab.home.path().join("stderr");
    let mut killed = lab.spawn(&command, &stderr);
    until("the task runs", || filled.front.moved() == 1);
    signal(&killed, "KILL");
    killed.wait().unwrap();
    let looks = || filled.front.asked("ListMessageMoveTasks").len();
    let before = looks();
    let mut following = lab.spawn(&command, &stderr);
    until("it is followed", || looks() >= before + 2);
    signal(&following, "INT");
    assert_eq!(following.wait().unwrap().code(), Some(130));
    let said = std::fs::read_to_string(&stderr).unwrap();
    assert!(said.contains("stage autotag: following the move task that runs already"), "{said}");
    assert!(said.contains("interrupted: moved back 1 dead letter of 3"), "{said}");
    assert_eq!((filled.starts().len(), filled.front.asked("CancelMessageMoveTask").len()), (1, 1));
}

#[test]
fn bar_shows_how_many_messages_were_moved() {
    let filled = Filled::new();
    filled.front.hold();
    let command = format!("{} pipeline dead redrive --stage autotag --move-task; echo exit $?", tollway());
    let terminal = Terminal::new(&filled.lab.home, &command);
    terminal.until(|screen| screen.contains(" 1 of 3, "));
    terminal.keys("C-c");
    terminal.until(|screen| screen.contains("moved back 1 dead letter of 3") && screen.contains("exit 130"));
}
