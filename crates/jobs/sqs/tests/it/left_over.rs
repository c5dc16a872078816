//! Messages that are left over, and claims that are: counted as what they are, and offered again at once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollway_core::Span;
use tollway_pipeline::*;
use tollway_sqs::SqsEngine;

use crate::lab::{Lab, now, sqs, stage};

fn another(lab: &Lab) -> Arc<SqsEngine> {
    Arc::new(SqsEngine::open(&EngineUrl::parse(&lab.url).unwrap()).unwrap())
}

fn depth(lab: &Lab, queue: &str) -> u64 {
    let names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
    let said = sqs("GetQueueAttributes", &json!({ "QueueUrl": lab.queue(queue), "AttributeNames": names }));
    names.iter().map(|name| said["Attributes"][*name].as_str().unwrap().parse::<u64>().unwrap()).sum()
}

async fn add(lab: &Lab, keys: &[&str]) {
    let jobs = keys.iter().map(|key| NewJob::new(&stage("a"), key, "1").unwrap()).collect();
    lab.engine.enqueue(jobs, now()).await.unwrap();
}

async fn claim_one(engine: &SqsEngine) -> Claimed {
    // SQS may show a message a moment after it was sent, and calls of an idle engine are seldom.
    for _ in 0..600 {
        let request = ClaimRequest::new(&stage("a"), "w", Span::from_secs(600));
        if let Some(claimed) = engine.claim(request, now()).await.unwrap().pop() {
            return claimed;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no job can be claimed");
}

async fn kill(lab: &Lab) {
    let claimed = claim_one(&lab.engine).await;
    let attempt = Attempt::new(Cause::Failure, "it cannot be read");
    lab.engine.finish(claimed.claim, Conclusion::Dead { attempt }, now()).await.unwrap();
}

/// Sends a message as it was received, as a process does that dies before it deletes the first.
fn send_again(queue: &str, message: &Value) {
    let request = json!({
        "QueueUrl": queue, "MessageBody": message["Body"], "MessageAttributes": message["MessageAttributes"],
    });
    sqs("SendMessage", &request);
}

/// The messages of a queue, which stay visible.
fn see(queue: &str) -> Vec<Value> {
    let request = json!({
        "QueueUrl": queue, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"], "VisibilityTimeout": 0,
    });
    sqs("ReceiveMessage", &request)["Messages"].as_array().cloned().unwrap_or_default()
}

/// P2: the documented alarm counts messages of the queue of dead letters: one for each dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn job_that_died_again_has_one_message_among_the_dead_letters() {
    let (lab, death) = (Lab::new(), "tollway-dead");
    add(&lab, &["k"]).await;
    kill(&lab).await;
    let dead = lab.queue("a-dead");
    let first = see(&dead).remove(0);
    let redriven = lab.engine.change(Filter::default(), Change::Redrive, None, 10, now()).await.unwrap();
    assert_eq!(redriven.jobs, 1);
    kill(&lab).await;
    let is_last = |message: &Value| message["MessageAttributes"][death] != first["MessageAttributes"][death];
    let last = see(&dead).into_iter().find(is_last).unwrap();
    (0..3).for_each(|_| send_again(&dead, &first));
    send_again(&dead, &last);
    lab.engine.tidy().await.unwrap();
    lab.engine.flush().await.unwrap();
    let left = see(&dead);
    assert!(left.len() == 1 && is_last(&left[0]), "{left:?}");
    assert_eq!(lab.jobs(State::Dead).await.len(), 1);
}

/// A `migrate` that was killed has taken jobs out of the ledger, and their messages are still there: they are no jobs.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_jobs_that_have_moved_are_no_ready_jobs() {
    let lab = Lab::new();
    add(&lab, &["1", "2", "3"]).await;
    let filter = Filter { stage: Some(stage("a")), ..Filter::default() };
    let withdrawn = lab.engine.withdraw(filter, "sqlite:pdf.db", None, 10, now()).await.unwrap();
    assert_eq!((withdrawn.items.len(), depth(&lab, "a")), (3, 3), "it was killed here");
    let ready = async || {
        let engine = another(&lab);
        let counts = engine.counts().await.unwrap();
        engine.flush().await.unwrap();
        counts.iter().find(|counts| counts.stage == stage("a")).unwrap().of(State::Ready)
    };
    assert_eq!(ready().await, 0);
    assert_eq!(depth(&lab, "a"), 0);
    // Messages of other programs are jobs, which the ledger does not know yet.
    sqs("SendMessage", &json!({ "QueueUrl": lab.queue("a"), "MessageBody": "{}" }));
    assert_eq!(ready().await, 1);
    assert_eq!(claim_one(&lab.engine).await.job.data, "{}");
}

/// P2: a named worker that was killed and starts again gets its jobs at once, although SQS has shown their messages to others
/// meanwhile, so that the ledger's receipts are old.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_killed_named_worker_come_back_when_it_starts_again() {
    let lab = Lab::new();
    add(&lab, &["k"]).await;
    let request = ClaimRequest::new(&stage("a"), "w", Span::from_secs(1));
    let mut claimed = Vec::new();
    while claimed.is_empty() {
        claimed = lab.engine.claim(request.clone(), now()).await.unwrap();
    }
    // Its message becomes visible before the claim is renewed, and another program hides it for long.
    let hidden = json!({ "QueueUrl": lab.queue("a"), "VisibilityTimeout": 600 });
    while sqs("ReceiveMessage", &hidden)["Messages"].get(0).is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let renewed =
        lab.engine.renew(vec![claimed[0].claim.clone()], Span::from_secs(600), now()).await.unwrap();
    assert_eq!(renewed, [true], "and here the worker is killed");
    let again = another(&lab);
    assert_eq!(again.abandon(Some("w"), now()).await.unwrap(), 1);
    let back = claim_one(&again).await;
    assert_eq!((back.job.key.as_str(), back.job.crashes), ("k", 1));
    let done = Conclusion::Done { outputs: Vec::new(), result: None };
    again.finish(back.claim, done, now()).await.unwrap();
    assert_eq!(lab.jobs(State::Done).await.len(), 1);
}

/// A5: tokens are taken before messages are received, and each is logged. A queue whose jobs are all done is not asked for each of them when its claim
/// would have expired.
#[tokio::test(flavor = "multi_thread")]
async fn done_jobs_are_not_looked_for() {
    let lab = Lab::new();
    add(&lab, &["1", "2"]).await;
    for _ in 0..2 {
        let claimed = claim_one(&lab.engine).await;
        let renewed =
            lab.engine.renew(vec![claimed.claim.clone()], Span::from_secs(900), now()).await.unwrap();
        assert_eq!(renewed, [true]);
        let done = Conclusion::Done { outputs: Vec::new(), result: None };
        lab.engine.finish(claimed.claim, done, now()).await.unwrap();
    }
    let peek = lab.engine.peek(&stage("a"), now()).await.unwrap();
    assert_eq!(peek.next_at, None, "no claim is open that could expire");
}
