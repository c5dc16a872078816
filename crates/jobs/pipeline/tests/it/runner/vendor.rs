//! Two pipelines and one vendor that counts for itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollway::{Limiter, StoreUrl};
use tollway_core::Span;
use tollway_pipeline::handler::{Answer, Handler, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{Engine, JobCost, SqliteEngine, StageConfig, State};
use tollway_vendor::server::{VendorServer, VendorSettings};

use super::{chain, enqueue, jobs, stage};

const QUOTA: u64 = 100;

/// Calls the vendor, whose JSON is no answer of a handler.
fn calls_vendor(url: &str) -> Handler {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (client, url) = (reqwest::Client::new(), url.to_owned());
    handler_fn(move |_| {
        let call = client.post(&url).body("{}").send();
        async move {
            match call.await.map(|response| response.status().as_u16()) {
                Ok(200) => Answer::done(),
                Ok(429) => Answer::rate_limited(None),
                other => Answer::retry(format!("{other:?}")),
            }
        }
    })
}

/// A pipeline of two stages that both call the vendor, with a file of jobs of its own.
async fn pipeline(folder: &Path, name: &str, url: &str) -> (Runner, Arc<dyn Engine>) {
    let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&folder.join(name)).unwrap());
    let store: StoreUrl = format!("file:{}", folder.join("limits").display()).parse().unwrap();
    let quota = format!("{QUOTA} / day");
    let limiter = Limiter::builder().policy("adobe", [&*quota]).unwrap().store_at(&store).unwrap().build();
    enqueue(&engine, "autotag", 100, limiter.clock().now()).await;
    enqueue(&engine, "extract", 20, limiter.clock().now()).await;
    let calls = |text| StageConfig { take: JobCost::new([("adobe", "requests", 1)]).unwrap(), ..stage(text) };
    let mut builder = Runner::builder(engine.clone(), limiter);
    for stage in chain(vec![calls("autotag"), calls("extract")]) {
        builder = builder.handler(stage.name.as_str(), calls_vendor(url)).stage(stage);
    }
    (builder.start().await.unwrap(), engine)
}

/// P3, P5: both stages of both pipelines draw on one quota: the vendor sees every unit used, and refuses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn two_pipelines_share_one_quota_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let quota = format!("{QUOTA} requests / day");
    let vendor = VendorServer::start(VendorSettings::new([&*quota]).unwrap()).await.unwrap();
    let (one, first) = pipeline(folder.path(), "one.db", &vendor.url()).await;
    let (two, second) = pipeline(folder.path(), "two.db", &vendor.url()).await;
    while vendor.counts().accepted < QUOTA {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Long enough for a call too many.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for runner in [one, two] {
        assert!(runner.progress().await.unwrap().stages.iter().any(|stage| stage.waiting_until.is_some()));
        runner.drain(Span::from_secs(5)).await.unwrap();
    }
    let counts = vendor.stop().await;
    assert_eq!((counts.accepted, counts.refused), (QUOTA, 0));
    let all = [jobs(&first).await, jobs(&second).await].concat();
    assert_eq!(all.iter().filter(|job| job.state == State::Done).count() as u64, QUOTA);
    assert!(all.iter().all(|job| job.failures + job.crashes + job.rate_limited == 0));
}
