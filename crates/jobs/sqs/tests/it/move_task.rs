//! Move tasks of SQS. No emulator has them: a proxy stands in for AWS.

use serde_json::json;
use tollway_pipeline::*;
use tollway_sqs::{MoveProgress, MoveState, MoveTask};
use tollway_testkit::faults::{AwsFront, Said};
use tollway_testkit::servers::{Ministack, MoveTaskFront};

use crate::lab::{Lab, now, sqs, stage};

/// Dead letters of one stage, in a queue that a redrive policy names.
async fn dead_letters(endpoint: &str, count: usize) -> Lab {
    let lab = Lab::through(endpoint, "&create=yes");
    for n in 0..count {
        let job = NewJob::new(&stage("a"), &n.to_string(), "1").unwrap();
        lab.engine.enqueue(vec![job], now()).await.unwrap();
        let claimed = lab.claim(1).await.remove(0);
        let attempt = Attempt::new(Cause::Failure, "HTTP 500");
        lab.engine.finish(claimed.claim, Conclusion::Dead { attempt }, now()).await.unwrap();
    }
    let arn = json!({ "QueueUrl": lab.queue("a-dead"), "AttributeNames": ["QueueArn"] });
    let arn = sqs("GetQueueAttributes", &arn)["Attributes"]["QueueArn"].clone();
    let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": 20 }).to_string();
    let policy = json!({ "QueueUrl": lab.queue("a"), "Attributes": { "RedrivePolicy": policy } });
    sqs("SetQueueAttributes", &policy);
    lab
}

async fn ended(lab: &Lab, task: &MoveTask) -> MoveProgress {
    loop {
        let progress = lab.engine.look_at_move_task(task).await.unwrap();
        if !matches!(progress.state, MoveState::Running | MoveState::Cancelling) {
            return progress;
        }
    }
}

/// A task whose answer was lost is followed, and not started again.
#[tokio::test(flavor = "multi_thread")]
async fn lost_answer_starts_no_second_task() {
    let tasks = MoveTaskFront::to(Ministack::shared());
    let network = AwsFront::to(tasks.addr());
    let lab = dead_letters(&format!("http://{}", network.addr()), 3).await;
    network.next(1, "StartMessageMoveTask", Said::Lost);
    let requests = lab.engine.requests();
    let task = lab.engine.start_move_task(&stage("a"), Some(500)).await.unwrap();
    // Two ARNs, a list, the start, and another list.
    assert_eq!(lab.engine.requests() - requests, 5);
    let progress = ended(&lab, &task).await;
    assert_eq!(progress, MoveProgress { moved: 3, to_move: Some(3), state: MoveState::Completed });
    assert_eq!(tasks.asked("StartMessageMoveTask").len(), 1);
    // A task of the past is not taken for a new one.
    let empty = lab.engine.start_move_task(&stage("a"), None).await.unwrap();
    assert!(!empty.was_running());
    assert_eq!(ended(&lab, &empty).await.moved, 0);
    assert_eq!(ended(&lab, &task).await.moved, 3);
}

/// SQS has one task per queue: of two processes that start one, both follow it, and either cancels it.
#[tokio::test(flavor = "multi_thread")]
async fn two_starts_make_one_task() {
    let tasks = MoveTaskFront::to(Ministack::shared());
    let lab = dead_letters(&tasks.endpoint(), 3).await;
    tasks.hold();
    let a = stage("a");
    let start = || lab.engine.start_move_task(&a, None);
    let (one, other) = tokio::join!(start(), start());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(one.was_running() != other.was_running());
    let moved = lab.engine.cancel_move_task(&one).await.unwrap();
    let progress = ended(&lab, &other).await;
    assert_eq!((&progress.state, progress.to_move), (&MoveState::Cancelled, Some(3)));
    assert!((moved..=1).contains(&progress.moved), "{progress:?}");
    // A task that has ended is cancelled.
    assert_eq!(lab.engine.cancel_move_task(&other).await.unwrap(), progress.moved);
    let error = lab.engine.start_move_task(&a, Some(501)).await.unwrap_err();
    assert_eq!((error.fault, tasks.asked("CancelMessageMoveTask").len()), (EngineFault::Caller, 2));
}
