//! How many jobs a second pass two empty stages: `cargo run --release -p tollway-pipeline --example throughput`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement, not a service"
)]

use std::sync::Arc;
use std::time::Instant;

use tollway::Limiter;
use tollway_core::{Name, Span};
use tollway_pipeline::handler::{Answer, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{Engine, NewJob, SqliteEngine, StageConfig};

const JOBS: usize = 20_000;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for workers in [1, 32, 128] {
        let jobs = if workers == 1 { JOBS / 20 } else { JOBS };
        let seconds = runtime.block_on(pass(workers, jobs));
        println!("{workers:>4} workers: {:>8.0} jobs a second through two stages", jobs as f64 / seconds);
    }
}

async fn pass(workers: u32, jobs: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(&folder.path().join("jobs.db")).unwrap());
    let limiter = Limiter::builder().build();
    let (first, second) = (Name::new("first").unwrap(), Name::new("second").unwrap());
    let new: Vec<NewJob> = (0..jobs).map(|n| NewJob::new(&first, &n.to_string(), "{}").unwrap()).collect();
    for jobs in new.chunks(1_000) {
        engine.enqueue(jobs.to_vec(), limiter.clock().now()).await.unwrap();
    }
    let started = Instant::now();
    let stage = |name: &Name| StageConfig { concurrency: workers, ..StageConfig::new(name.clone()) };
    let runner = Runner::builder(engine, limiter)
        .stage(StageConfig { next: Some(second.clone()), ..stage(&first) })
        .stage(stage(&second))
        .total(workers)
        .handler("first", handler_fn(async |_: Task| Answer::hands_on(["{}"])))
        .handler("second", handler_fn(async |_: Task| Answer::done()))
        .start()
        .await
        .unwrap();
    runner.finished().await.unwrap();
    let seconds = started.elapsed().as_secs_f64();
    runner.drain(Span::ZERO).await.unwrap();
    seconds
}
