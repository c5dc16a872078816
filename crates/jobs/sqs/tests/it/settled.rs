//! The end of a run on queues: no job is open, and none is about to be released.

use std::collections::BTreeMap;

use serde_json::json;
use tollway::Limiter;
use tollway_core::Span;
use tollway_pipeline::handler::{Answer, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::*;
use tollway_testkit::servers::Ministack;

use crate::lab::{Lab, now, stage};

/// P1: between the transaction of the last job of a group and the release of the job that waits for it, no job is open. A run
/// that looked at the counts then said that all jobs were done.
#[tokio::test(flavor = "multi_thread")]
async fn run_does_not_end_before_a_held_job_is_released() {
    let lab = Lab::new();
    let change = StageChange { after: Some(vec![stage("a")]), ..StageChange::default() };
    lab.engine.set_stage(&stage("upload"), change, now()).await.unwrap();
    // The last job of the group, as another process wrote it.
    let member = json!({ "part": { "S": "group/g" }, "sort": { "S": format!("a/{:020}", 999_999) } });
    let mut item = member.clone();
    item["id"] = json!({ "N": "999999" });
    let ledger = |action: &str, more: serde_json::Value| {
        let mut request = json!({ "TableName": lab.ledger() });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Ministack::shared().ask(&format!("DynamoDB_20120810.{action}"), &request)
    };
    ledger("PutItem", json!({ "Item": item }));
    let upload = NewJob::new(&stage("upload"), "all", "1").unwrap().group("g").unwrap();
    lab.engine.enqueue(vec![upload], now()).await.unwrap();
    assert_eq!(lab.jobs(State::Held).await.len(), 1);
    // That process has done the job, and looks at the group in a moment, or died before it could.
    ledger("DeleteItem", json!({ "Key": member }));
    let open: u64 = lab.engine.counts().await.unwrap().iter().map(|counts| counts.of(State::Ready)).sum();
    assert_eq!(open, 0);

    let done = || Answer::Done { outputs: Vec::new(), result: None, cost: BTreeMap::new() };
    let handler = || handler_fn(move |_: Task| async move { done() });
    let config = |name: &str, after: Vec<tollway_core::Name>| StageConfig {
        take: JobCost::new([("vendor", "requests", 1)]).unwrap(),
        after,
        ..StageConfig::new(stage(name))
    };
    let limiter = Limiter::builder().policy("vendor", ["200 requests / second"]).unwrap().build();
    let runner = Runner::builder(lab.engine.clone(), limiter)
        .stage(config("a", Vec::new()))
        .stage(config("upload", vec![stage("a")]))
        .handler("a", handler())
        .handler("upload", handler())
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    runner.drain(Span::from_secs(10)).await.unwrap();
    assert_eq!(lab.jobs(State::Done).await.len(), 1);
}
