//! What is special about queues: messages of other programs, dead letters in their own queue, requests, and AWS's errors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollway::Limiter;
use tollway_core::{Clock, Name, Retry, Span, Timestamp};
use tollway_pipeline::handler::{Answer, Handed, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::*;
use tollway_sqs::SqsEngine;
use tollway_testkit::faults::{AwsFront, Said};
use tollway_testkit::servers::Ministack;

use crate::lab::{Lab, now, receive, sqs, stage};

/// P8: an old worker reads our messages, and we read those of an old producer.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_the_jobs_json_in_both_directions() {
    let lab = Lab::new();
    let data = "{ \"bucket\" : \"b\",  \"chunk_key\":\"é\" }";
    lab.engine.enqueue(vec![NewJob::new(&stage("a"), "k % é|", data).unwrap()], now()).await.unwrap();
    let messages = receive(&lab.queue("a"));
    assert_eq!(messages[0]["Body"], data);
    assert!(messages[0]["MessageAttributes"].as_object().unwrap().len() <= 10, "{messages:?}");
    let receipt = &messages[0]["ReceiptHandle"];
    let show = json!({ "QueueUrl": lab.queue("a"), "ReceiptHandle": receipt, "VisibilityTimeout": 0 });
    sqs("ChangeMessageVisibility", &show);
    let notification = json!({ "Records": [{ "s3": { "object": { "key": "in.pdf" } } }] }).to_string();
    sqs("SendMessage", &json!({ "QueueUrl": lab.queue("a"), "MessageBody": notification }));
    let mut claimed = Vec::new();
    while claimed.len() < 2 {
        claimed.extend(lab.claim(2).await);
    }
    claimed.sort_by(|one, other| one.job.key.cmp(&other.job.key));
    assert_eq!((claimed[0].job.key.as_str(), claimed[0].job.data.as_str()), ("k % é|", data));
    assert!(claimed[1].job.key.starts_with("sqs:"), "{}", claimed[1].job.key);
    assert_eq!(claimed[1].job.data, notification);
}

/// A message that is not JSON is a dead letter with evidence, and is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn message_that_is_no_json_is_a_dead_letter() {
    let lab = Lab::new();
    assert!(lab.claim(1).await.is_empty());
    sqs("SendMessage", &json!({ "QueueUrl": lab.queue("a"), "MessageBody": "not JSON" }));
    let mut dead = Vec::new();
    while dead.is_empty() {
        assert!(lab.claim(1).await.is_empty());
        dead = lab.jobs(State::Dead).await;
    }
    assert_eq!((dead[0].error.as_str(), dead[0].data.as_str()), ("the message is not a job", "\"not JSON\""));
    let evidence = lab.engine.evidence(dead[0].id).await.unwrap();
    assert!(evidence[0].attempt.details().contains("not JSON"), "{evidence:?}");
    let mut messages = Vec::new();
    while messages.is_empty() {
        messages = receive(&lab.queue("a-dead"));
    }
    assert_eq!(messages[0]["Body"], "not JSON");
}

/// P7: dead letters lie in their own queue, and are redriven out of it.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_have_a_queue_and_leave_it_when_redriven() {
    let lab = Lab::new();
    lab.engine.enqueue(vec![NewJob::new(&stage("a"), "k", "1").unwrap()], now()).await.unwrap();
    let claimed = lab.claim(1).await.remove(0);
    let attempt = Attempt::new(Cause::Failure, "HTTP 500");
    lab.engine.finish(claimed.claim, Conclusion::Dead { attempt }, now()).await.unwrap();
    let dead = json!({ "QueueUrl": lab.queue("a-dead"), "AttributeNames": ["ApproximateNumberOfMessages"] });
    let waiting = || sqs("GetQueueAttributes", &dead)["Attributes"]["ApproximateNumberOfMessages"].clone();
    assert_eq!(waiting(), "1");
    let changed = lab.engine.change(Filter::default(), Change::Redrive, None, 10, now()).await.unwrap();
    assert_eq!(changed.jobs, 1);
    lab.engine.flush().await.unwrap();
    assert_eq!(waiting(), "0");
    let claimed = lab.claim(1).await.remove(0);
    assert_eq!((claimed.job.failures, claimed.claim.number), (0, 2));
}

/// An operator may also move dead letters back with the tools of AWS, which know nothing of the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_that_another_tool_moves_back_is_redriven() {
    let lab = Lab::new();
    lab.engine.enqueue(vec![NewJob::new(&stage("a"), "k", "1").unwrap()], now()).await.unwrap();
    let claimed = lab.claim(1).await.remove(0);
    let attempt = Attempt::new(Cause::Failure, "HTTP 500");
    lab.engine.finish(claimed.claim, Conclusion::Dead { attempt }, now()).await.unwrap();
    move_back(&lab);
    let mut again = Vec::new();
    while again.is_empty() {
        again = lab.claim(1).await;
    }
    assert_eq!((again[0].job.key.as_str(), again[0].job.failures), ("k", 0));
    assert!(lab.jobs(State::Dead).await.is_empty());
}

/// A dead letter of another program is listed like any other.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_of_other_programs_are_adopted() {
    let lab = Lab::new();
    assert!(lab.claim(1).await.is_empty());
    sqs("SendMessage", &json!({ "QueueUrl": lab.queue("a-dead"), "MessageBody": "{\"old\": true}" }));
    lab.engine.tidy().await.unwrap();
    let dead = lab.jobs(State::Dead).await;
    assert_eq!((dead.len(), dead[0].data.as_str()), (1, "{\"old\": true}"));
    // A tool that moves it back redrives it, like every other dead letter.
    lab.engine.flush().await.unwrap();
    move_back(&lab);
    let mut again = Vec::new();
    while again.is_empty() {
        again = lab.claim(1).await;
    }
    assert_eq!((again[0].job.id, again[0].job.data.as_str()), (dead[0].id, "{\"old\": true}"));
    assert!(lab.jobs(State::Dead).await.is_empty());
}

/// Moves a dead letter back to its stage, as the tools of AWS do.
fn move_back(lab: &Lab) {
    let messages = receive(&lab.queue("a-dead"));
    assert_eq!(messages.len(), 1, "{messages:?}");
    let moved = json!({
        "QueueUrl": lab.queue("a"), "MessageBody": messages[0]["Body"],
        "MessageAttributes": messages[0]["MessageAttributes"]
    });
    sqs("SendMessage", &moved);
}

/// A large answer is handed on in pieces, all or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn many_outputs_are_handed_on() {
    let lab = Lab::new();
    lab.engine.enqueue(vec![NewJob::new(&stage("a"), "k", "1").unwrap()], now()).await.unwrap();
    let claimed = lab.claim(1).await.remove(0);
    let outputs = (0..130).map(|n| Output::new(&stage("b"), &n.to_string()).unwrap()).collect();
    let done = Conclusion::Done { outputs, result: None };
    let finished = lab.engine.finish(claimed.claim.clone(), done.clone(), now()).await.unwrap();
    assert_eq!(finished, Finished::Committed { outputs: 130, joined: 0 });
    assert_eq!(lab.engine.finish(claimed.claim, done, now()).await.unwrap(), Finished::Repeated);
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 130 {
        let request = ClaimRequest::new(&stage("b"), "w", Span::from_secs(60)).count(50);
        for claimed in lab.engine.claim(request, now()).await.unwrap() {
            assert!(seen.insert(claimed.job.key), "an output came twice");
        }
    }
}

/// Every error says whose fault it is, and what to do.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_aws_are_named() {
    let front = AwsFront::to(Ministack::shared().addr());
    let job = || vec![NewJob::new(&stage("a"), "k", "1").unwrap()];
    let missing = Lab::through(&format!("http://{}", front.addr()), "");
    let error = missing.engine.enqueue(job(), now()).await.unwrap_err();
    assert_eq!((error.fault, error.retry), (EngineFault::Storage, Retry::Useless), "{error}");
    assert!(error.message.contains("create=yes"), "{error}");

    let lab = Lab::through(&format!("http://{}", front.addr()), "&create=yes");
    lab.engine.enqueue(job(), now()).await.unwrap();
    front.always("ReceiveMessage", Said::Denied);
    let request = ClaimRequest::new(&stage("a"), "w", Span::from_secs(60));
    let error = lab.engine.claim(request, now()).await.unwrap_err();
    assert!(error.message.contains("AccessDenied") && error.message.contains("lab-"), "{error}");
    assert_eq!(error.retry, Retry::Useless);
    front.clear();
    // Throttled a few times: repeated, and not an error.
    front.next(3, "", Said::Throttled);
    assert_eq!(lab.claim(1).await.len(), 1);
    let large = format!("\"{}\"", "x".repeat(300 << 10));
    let error = lab.engine.enqueue(vec![NewJob::new(&stage("a"), "l", &large).unwrap()], now()).await;
    assert_eq!(error.unwrap_err().fault, EngineFault::Caller);
    let cost = JobCost::new([("gemini", "tokens", 5)]).unwrap();
    let costly = NewJob::new(&stage("a"), "c", "1").unwrap().cost(cost);
    let error = lab.engine.enqueue(vec![costly], now()).await.unwrap_err();
    assert!(error.message.contains("`take`"), "{error}");
}

/// A machine's clock that is ten minutes fast.
struct TenMinutesFast;

impl Clock for TenMinutesFast {
    fn now(&self) -> Timestamp {
        now().plus(Span::from_mins(10))
    }
}

/// With a wrong clock, a process would take over claims of others.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_clock_claims_nothing() {
    let lab = Lab::new();
    lab.engine.enqueue(vec![NewJob::new(&stage("a"), "k", "1").unwrap()], now()).await.unwrap();
    let url = EngineUrl::parse(&lab.url).unwrap();
    let wrong = SqsEngine::going_by(Arc::new(TenMinutesFast), &url).unwrap();
    wrong.stages().await.unwrap();
    let request = ClaimRequest::new(&stage("a"), "w", Span::from_mins(15));
    let error = wrong.claim(request, TenMinutesFast.now()).await.unwrap_err();
    assert_eq!((error.fault, error.retry), (EngineFault::Storage, Retry::Safe), "{error}");
    assert!(error.message.contains("set it right"), "{error}");
    assert_eq!(lab.claim(1).await.len(), 1);
}

/// At 200 calls in a window, a job and stage cost less than half a request to SQS.
#[tokio::test(flavor = "multi_thread")]
async fn job_costs_less_than_half_a_request() {
    const JOBS: usize = 400;
    let lab = Lab::new();
    let limiter = Limiter::builder().policy("vendor", ["200 requests / 5 seconds"]).unwrap().build();
    let jobs = (0..JOBS).map(|n| NewJob::new(&stage("a"), &n.to_string(), "1").unwrap()).collect();
    lab.engine.enqueue(jobs, limiter.clock().now()).await.unwrap();
    let enqueued = lab.engine.requests();
    let handler = |next: bool| {
        handler_fn(move |task: Task| async move {
            // Between 20 and 200 ms, so that answers do not come together.
            let spread = task.job.id.get() * 37 % 180;
            tokio::time::sleep(Duration::from_millis(20 + spread)).await;
            let outputs = next.then(|| Handed::new("1")).into_iter().collect();
            Answer::Done { outputs, result: None, cost: BTreeMap::new() }
        })
    };
    let config = |name: &str, next: Option<Name>| StageConfig {
        take: JobCost::new([("vendor", "requests", 1)]).unwrap(),
        concurrency: 50,
        next,
        ..StageConfig::new(stage(name))
    };
    let runner = Runner::builder(lab.engine.clone(), limiter)
        .stage(config("a", Some(stage("b"))))
        .stage(config("b", None))
        .handler("a", handler(true))
        .handler("b", handler(false))
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    runner.drain(Span::from_secs(10)).await.unwrap();
    let requests = lab.engine.requests() - enqueued;
    let each = requests as f64 / (2 * JOBS) as f64;
    // What is done has left the queues, and nothing was kept back.
    for name in ["a", "b"] {
        let counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
        let request = json!({ "QueueUrl": lab.queue(name), "AttributeNames": counts });
        let said = sqs("GetQueueAttributes", &request)["Attributes"].clone();
        assert_eq!(counts.map(|count| said[count].clone()), ["0", "0"], "{name}");
    }
    assert!(each <= 0.5, "{requests} requests for {JOBS} jobs in two stages: {each:.2} each");
}
