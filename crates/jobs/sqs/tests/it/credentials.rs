//! Credentials that run out while a pipeline works.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollway::Limiter;
use tollway_core::{Retry, Span};
use tollway_pipeline::handler::{Answer, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::*;
use tollway_testkit::faults::{AwsFront, Said};
use tollway_testkit::servers::Ministack;

use crate::lab::{Lab, now, stage};

/// The pipeline waits for new credentials, and goes on: every job is done once.
#[tokio::test(flavor = "multi_thread")]
async fn pipeline_goes_on_with_new_credentials() {
    const JOBS: usize = 40;
    let front = AwsFront::to(Ministack::shared().addr());
    let lab = Lab::through(&format!("http://{}", front.addr()), "&create=yes");
    let jobs = (0..JOBS).map(|n| NewJob::new(&stage("a"), &n.to_string(), "1").unwrap()).collect();
    lab.engine.enqueue(jobs, now()).await.unwrap();
    let calls: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let called = calls.clone();
    let handler = handler_fn(move |task: Task| {
        *called.lock().unwrap().entry(task.job.key).or_default() += 1;
        async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Answer::done()
        }
    });
    let runner = Runner::builder(lab.engine.clone(), Limiter::builder().build())
        .stage(StageConfig { concurrency: 4, ..StageConfig::new(stage("a")) })
        .handler("a", handler)
        .start()
        .await
        .unwrap();
    while calls.lock().unwrap().len() < JOBS / 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    front.always("", Said::Expired);
    let error =
        lab.engine.enqueue(vec![NewJob::new(&stage("a"), "x", "1").unwrap()], now()).await.unwrap_err();
    assert_eq!((error.fault, error.retry), (EngineFault::Storage, Retry::Safe), "{error}");
    assert!(error.message.contains("ExpiredToken") && error.message.contains("log in again"), "{error}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(calls.lock().unwrap().len() < JOBS, "it went on without credentials");
    front.clear();
    runner.finished().await.unwrap();
    runner.drain(Span::from_secs(10)).await.unwrap();
    let calls = calls.lock().unwrap().clone();
    assert_eq!((calls.len(), calls.values().max()), (JOBS, Some(&1)), "{calls:?}");
    assert_eq!(lab.jobs(State::Done).await.len(), JOBS);
}
