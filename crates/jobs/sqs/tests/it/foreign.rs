//! Messages of other programs, read by the pipeline's source.

use serde_json::json;
use tollway_pipeline::*;
use tollway_sqs::SqsEngine;

use crate::lab::{Lab, now, sqs};

/// An engine for a pipeline whose source knows where chunks lie.
fn lab() -> Lab {
    let mut lab = Lab::new();
    let config = format!(
        r#"
        [pipelines.pdf]
        engine = "{}"
        stages = [{{ name = "a" }}]
        [pipelines.pdf.source]
        pattern = "uploads/{{job_id}}/chunks/{{name}}.pdf"
        original_file_key = "uploads/{{job_id}}/original.pdf"
        "#,
        lab.url
    );
    let config = ConfigWithPipelines::parse(&config).unwrap();
    let engine = &config.pipeline("pdf").unwrap().engine;
    lab.engine = std::sync::Arc::new(SqsEngine::open(engine).unwrap());
    lab
}

async fn claim_all(lab: &Lab, jobs: usize) -> Vec<Claimed> {
    let mut claimed = Vec::new();
    while claimed.len() < jobs {
        claimed.extend(lab.claim(9).await);
    }
    claimed.sort_by(|one, other| one.job.key.cmp(&other.job.key));
    claimed
}

/// P1, P8: a message of the documents has its chunk as key, so that one that is sent twice is one job.
#[tokio::test(flavor = "multi_thread")]
async fn documented_message_is_known_by_its_chunk() {
    let lab = lab();
    assert!(lab.claim(1).await.is_empty());
    let body =
        json!({ "bucket": "b", "chunk_key": "uploads/job-1/chunks/c.pdf", "job_id": "job-1" }).to_string();
    let send = || sqs("SendMessage", &json!({ "QueueUrl": lab.queue("a"), "MessageBody": body }));
    send();
    let claimed = claim_all(&lab, 1).await.remove(0);
    let Job { key, group, data, .. } = &claimed.job;
    assert_eq!((key.as_str(), group.as_deref(), data), ("uploads/job-1/chunks/c.pdf", Some("job-1"), &body));
    lab.engine
        .finish(claimed.claim, Conclusion::Done { outputs: vec![], result: None }, now())
        .await
        .unwrap();
    send();
    while lab.engine.counts().await.unwrap()[0].events.duplicates == 0 {
        assert!(lab.claim(1).await.is_empty());
    }
    assert_eq!(lab.engine.counts().await.unwrap()[0].of(State::Done), 1);
}

/// P1: S3 sends its notifications to the queue, and each created object is a job.
#[tokio::test(flavor = "multi_thread")]
async fn notification_of_s3_is_a_job_for_each_object() {
    let lab = lab();
    assert!(lab.claim(1).await.is_empty());
    let created = |key: &str| {
        json!({
            "eventName": "ObjectCreated:Put", "eventTime": "2025-02-19T10:30:00.000Z",
            "s3": { "bucket": { "name": "pdfs" }, "object": { "key": key } }
        })
    };
    let records = [created("uploads/job-1/chunks/1.pdf"), created("uploads/job-1/chunks/2.pdf")];
    let notification = json!({ "Records": records }).to_string();
    let test = json!({ "Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "pdfs" }).to_string();
    for body in [test, notification] {
        sqs("SendMessage", &json!({ "QueueUrl": lab.queue("a"), "MessageBody": body }));
    }
    let claimed = claim_all(&lab, 2).await;
    let keys: Vec<&str> = claimed.iter().map(|one| one.job.key.as_str()).collect();
    assert_eq!(keys, ["uploads/job-1/chunks/1.pdf", "uploads/job-1/chunks/2.pdf"]);
    assert!(claimed.iter().all(|one| one.job.group.as_deref() == Some("job-1")));
}

/// A message whose jobs cannot be enqueued is a dead letter, and keeps no other message.
#[tokio::test(flavor = "multi_thread")]
async fn message_with_a_job_that_is_too_large_is_a_dead_letter() {
    let lab = lab();
    assert!(lab.claim(1).await.is_empty());
    let chunk = |name: &str, more: &str| json!({ "bucket": "b", "chunk_key": format!("uploads/job-1/chunks/{name}.pdf"), "job_id": "job-1", "more": more });
    let large = "x".repeat(300 << 10);
    let both = json!([chunk("1", ""), chunk("2", &large)]).to_string();
    for body in [both, chunk("3", "").to_string()] {
        sqs("SendMessage", &json!({ "QueueUrl": lab.queue("a"), "MessageBody": body }));
    }
    let claimed = claim_all(&lab, 1).await;
    assert_eq!(claimed[0].job.key, "uploads/job-1/chunks/3.pdf");
    let mut dead = lab.jobs(State::Dead).await;
    while dead.is_empty() {
        assert!(lab.claim(1).await.is_empty());
        dead = lab.jobs(State::Dead).await;
    }
    let evidence = lab.engine.evidence(dead[0].id).await.unwrap();
    assert!(evidence[0].attempt.details().contains("bytes of data"), "{evidence:?}");
}
