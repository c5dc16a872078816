//! Processes that die between two steps, and messages that SQS itself moves: nothing is lost, and nothing is left behind.

use std::sync::Arc;

use serde_json::json;
use tollway_core::Span;
use tollway_pipeline::*;
use tollway_sqs::SqsEngine;
use tollway_testkit::faults::{AwsFront, Said};
use tollway_testkit::servers::Ministack;

use crate::lab::{Lab, now, sqs, stage};

/// A process that AWS stops answering, as if it were killed, and one that goes on after it.
struct Two {
    front: AwsFront,
    dying: Lab,
    other: Arc<SqsEngine>,
}

impl Two {
    fn new() -> Self {
        let server = Ministack::shared();
        let front = AwsFront::to(server.addr());
        let endpoint = format!("http://{}", front.addr());
        let dying = Lab::through(&endpoint, "&create=yes");
        let around = EngineUrl::parse(&dying.url.replace(&endpoint, &server.endpoint())).unwrap();
        Self { front, other: Arc::new(SqsEngine::open(&around).unwrap()), dying }
    }

    /// The other process claims, after claims of the dead one have expired.
    async fn claim_later(&self, from: &str, count: usize) -> Vec<Claimed> {
        let later = now().plus(Span::from_mins(2));
        let request = ClaimRequest::new(&stage(from), "other", Span::from_secs(60)).count(count);
        self.other.claim(request, later).await.unwrap()
    }
}

fn outputs(count: usize) -> Conclusion {
    let outputs = (0..count).map(|n| Output::new(&stage("b"), &n.to_string()).unwrap()).collect();
    Conclusion::Done { outputs, result: None }
}

/// What is left of a hand-off that was not completed is deleted, and not listed as ready for ever.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_hand_off_leaves_no_jobs_behind() {
    let two = Two::new();
    let job = NewJob::new(&stage("a"), "k", "1").unwrap().group("g").unwrap();
    two.dying.engine.enqueue(vec![job], now()).await.unwrap();
    let request = ClaimRequest::new(&stage("a"), "dying", Span::from_secs(1));
    let claimed = two.dying.engine.claim(request, now()).await.unwrap().remove(0);
    // Two of four pieces are written before it dies.
    two.front.next(2, "TransactWriteItems", Said::Answered);
    two.front.always("TransactWriteItems", Said::Unavailable);
    two.dying.engine.finish(claimed.claim.clone(), outputs(120), now()).await.unwrap_err();
    let listed = async || {
        let filter = Filter { stage: Some(stage("b")), ..Filter::default() };
        two.other.scan(filter, None, 200).await.unwrap().items.len()
    };
    assert!(listed().await > 0, "nothing was written before it died");
    let mut again = Vec::new();
    while again.is_empty() {
        again = two.claim_later("a", 1).await;
    }
    assert_eq!((again[0].job.crashes, listed().await), (1, 0));
    let finished = two.other.finish(again.remove(0).claim, outputs(40), now()).await.unwrap();
    assert_eq!(finished, Finished::Committed { outputs: 40, joined: 0 });
    two.front.clear();
    // The dead one was only slow: it is late, and changes nothing.
    assert_eq!(two.dying.engine.finish(claimed.claim, outputs(120), now()).await.unwrap(), Finished::Late);
    assert_eq!(listed().await, 40);
    let counts = two.other.counts().await.unwrap();
    let ready = counts.iter().find(|counts| counts.stage == stage("b")).map(|counts| counts.of(State::Ready));
    assert_eq!(ready, Some(40));
}

/// An answer that could not be stored is stored again: outputs of the first attempt do not stay beside those of the second.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_hand_off_leaves_no_jobs_behind() {
    let two = Two::new();
    two.dying.engine.enqueue(vec![NewJob::new(&stage("a"), "k", "1").unwrap()], now()).await.unwrap();
    let claimed = two.dying.claim(1).await.remove(0);
    two.front.next(2, "TransactWriteItems", Said::Answered);
    two.front.always("TransactWriteItems", Said::Unavailable);
    two.dying.engine.finish(claimed.claim.clone(), outputs(120), now()).await.unwrap_err();
    two.front.clear();
    let finished = two.dying.engine.finish(claimed.claim, outputs(120), now()).await.unwrap();
    assert_eq!(finished, Finished::Committed { outputs: 120, joined: 0 });
    let filter = Filter { stage: Some(stage("b")), ..Filter::default() };
    assert_eq!(two.other.scan(filter, None, 500).await.unwrap().items.len(), 120);
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 120 {
        for claimed in two.claim_later("b", 50).await {
            assert!(seen.insert(claimed.job.key), "an output came twice");
        }
    }
}

/// The message that releases a held job may arrive before its record says so, and while a new job of its group has arrived.
#[tokio::test(flavor = "multi_thread")]
async fn message_of_a_job_that_is_still_held_is_kept() {
    let two = Two::new();
    let gate = StageChange { after: Some(vec![stage("a")]), ..StageChange::default() };
    two.dying.engine.set_stage(&stage("b"), gate, now()).await.unwrap();
    let of_group = |at: &str, key: &str| NewJob::new(&stage(at), key, "1").unwrap().group("g").unwrap();
    two.dying.engine.enqueue(vec![of_group("a", "1"), of_group("b", "2")], now()).await.unwrap();
    let claimed = two.dying.claim(1).await.remove(0);
    // The job is done and its group complete. The message is sent, and then writes fail.
    two.front.next(1, "TransactWriteItems", Said::Answered);
    two.front.always("TransactWriteItems", Said::Unavailable);
    two.dying.engine.finish(claimed.claim, outputs(0), now()).await.unwrap();
    let messages = || {
        let counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
        let request = json!({ "QueueUrl": two.dying.queue("b"), "AttributeNames": counts });
        let said = sqs("GetQueueAttributes", &request)["Attributes"].clone();
        counts.map(|count| said[count].as_str().unwrap().parse::<u32>().unwrap()).iter().sum::<u32>()
    };
    assert_eq!(messages(), 1);
    two.other.enqueue(vec![of_group("a", "3")], now()).await.unwrap();
    assert!(two.claim_later("b", 1).await.is_empty());
    two.other.flush().await.unwrap();
    assert_eq!(messages(), 1, "the message of a held job was deleted");
}

/// A process that dies after its commit, before it has looked at the group: the message comes again, and the group is released.
#[tokio::test(flavor = "multi_thread")]
async fn group_is_released_after_the_death_of_its_last_worker() {
    let two = Two::new();
    let gate = StageChange { after: Some(vec![stage("a")]), ..StageChange::default() };
    two.dying.engine.set_stage(&stage("b"), gate, now()).await.unwrap();
    let of_group = |at: &str, key: &str| NewJob::new(&stage(at), key, "1").unwrap().group("g").unwrap();
    two.dying.engine.enqueue(vec![of_group("a", "1"), of_group("b", "2")], now()).await.unwrap();
    assert_eq!(two.dying.jobs(State::Held).await.len(), 1);
    let request = ClaimRequest::new(&stage("a"), "dying", Span::from_secs(1));
    let claimed = two.dying.engine.claim(request, now()).await.unwrap().remove(0);
    two.front.always("Query", Said::Unavailable);
    let finished = two.dying.engine.finish(claimed.claim, outputs(0), now()).await.unwrap();
    assert_eq!(finished, Finished::Committed { outputs: 0, joined: 0 });
    let mut released = Vec::new();
    while released.is_empty() {
        assert!(two.claim_later("a", 1).await.is_empty(), "a finished job came again");
        released = two.claim_later("b", 1).await;
    }
    assert_eq!((released[0].job.key.as_str(), released[0].claim.number), ("2", 1));
}

/// `maxReceiveCount` of SQS counts receives, not tries: a job whose message SQS has moved is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn job_whose_message_sqs_made_a_dead_letter_gets_a_new_one() {
    let lab = Lab::new();
    lab.engine.enqueue(vec![NewJob::new(&stage("a"), "k", "1").unwrap()], now()).await.unwrap();
    let dead = json!({ "QueueUrl": lab.queue("a-dead"), "AttributeNames": ["QueueArn"] });
    let arn = sqs("GetQueueAttributes", &dead)["Attributes"]["QueueArn"].clone();
    let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": "1" }).to_string();
    let attributes = json!({ "RedrivePolicy": policy });
    sqs("SetQueueAttributes", &json!({ "QueueUrl": lab.queue("a"), "Attributes": attributes }));
    // Another program receives it and gives it back; the next receive moves it.
    let received = json!({ "QueueUrl": lab.queue("a"), "VisibilityTimeout": 0 });
    for _ in 0..2 {
        sqs("ReceiveMessage", &received);
    }
    let depth = || {
        let request =
            json!({ "QueueUrl": lab.queue("a-dead"), "AttributeNames": ["ApproximateNumberOfMessages"] });
        sqs("GetQueueAttributes", &request)["Attributes"]["ApproximateNumberOfMessages"].clone()
    };
    assert_eq!(depth(), "1", "SQS has not moved the message");
    lab.engine.tidy().await.unwrap();
    let mut claimed = Vec::new();
    while claimed.is_empty() {
        claimed = lab.claim(1).await;
    }
    assert_eq!((claimed[0].job.key.as_str(), claimed[0].job.crashes), ("k", 0));
    lab.engine.finish(claimed.remove(0).claim, outputs(0), now()).await.unwrap();
    lab.engine.flush().await.unwrap();
    assert_eq!((depth(), lab.jobs(State::Done).await.len()), ("0".into(), 1));
}
