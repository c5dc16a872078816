//! Tollway's library: a runner with two stages in this process, on SQLite or Postgres.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tollway::core::{Name, Span};
use tollway::{Clock, Limiter};
use tollway_pipeline::handler::{Answer, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{Engine, NewJob, PostgresEngine, SqliteEngine, StageConfig, State};
use tollway_testkit::servers::PostgresServer;

use super::contest::Queue;
use crate::stopwatch::Lap;

pub(super) const FIRST: &str = "first";
pub(super) const SECOND: &str = "second";

/// Jobs that are enqueued at a time.
const BATCH: u64 = 1_000;

/// How often to look whether all jobs are through: as for the other queues.
const PAUSE: Duration = Duration::from_millis(2);

/// No round takes that long.
const TIMEOUT: Duration = Duration::from_secs(300);

pub(super) struct Sqlite;

impl Queue for Sqlite {
    fn drain(&self, folder: &Path, workers: u32, jobs: u64) -> Result<Duration> {
        drain(|| Ok(Arc::new(SqliteEngine::open(&folder.join("jobs.db"))?)), workers, jobs)
    }
}

pub(super) struct Postgres<'s>(pub(super) &'s PostgresServer);

impl Queue for Postgres<'_> {
    fn drain(&self, _folder: &Path, workers: u32, jobs: u64) -> Result<Duration> {
        let url = empty_database(self.0);
        drain(|| Ok(Arc::new(PostgresEngine::open(&url)?)), workers, jobs)
    }
}

/// The URL of the server, without the tables of earlier rounds.
pub(super) fn empty_database(server: &PostgresServer) -> String {
    server.query("DROP SCHEMA IF EXISTS tollway_pipeline, graphile_worker CASCADE");
    server.url()
}

fn drain(open: impl FnOnce() -> Result<Arc<dyn Engine>>, workers: u32, jobs: u64) -> Result<Duration> {
    // A new runtime, so that nothing of the previous round still runs.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = open()?;
        let limiter = Limiter::builder().build();
        enqueue(&*engine, &**limiter.clock(), "job", 0..jobs).await?;
        let lap = Lap::start();
        let (runner, finished) = start(engine.clone(), limiter, workers).await?;
        while finished.load(Ordering::Relaxed) < jobs || open_jobs(&*engine).await? > 0 {
            let finished = finished.load(Ordering::Relaxed);
            ensure!(lap.time() < TIMEOUT, "only {finished} of {jobs} jobs are through");
            tokio::time::sleep(PAUSE).await;
        }
        let took = lap.time();
        runner.drain(Span::ZERO).await?;
        Ok(took)
    })
}

/// Starts a runner of both stages. Returns it and the count of jobs that have been through the second handler.
pub(super) async fn start(
    engine: Arc<dyn Engine>,
    limiter: Limiter,
    workers: u32,
) -> Result<(Runner, Arc<AtomicU64>)> {
    let finished = Arc::new(AtomicU64::new(0));
    let counted = finished.clone();
    let second = Name::new(SECOND)?;
    let stage = |name: Name| StageConfig { concurrency: workers, ..StageConfig::new(name) };
    let runner = Runner::builder(engine, limiter)
        .stage(StageConfig { next: Some(second.clone()), ..stage(Name::new(FIRST)?) })
        .stage(stage(second))
        .total(workers)
        .handler(FIRST, handler_fn(async |task: Task| Answer::hands_on([task.job.data])))
        .handler(
            SECOND,
            handler_fn(move |_: Task| {
                counted.fetch_add(1, Ordering::Relaxed);
                async { Answer::done() }
            }),
        )
        .start()
        .await?;
    Ok((runner, finished))
}

/// Enqueues small jobs with these numbers.
pub(super) async fn enqueue(
    engine: &dyn Engine,
    clock: &dyn Clock,
    key: &str,
    mut numbers: std::ops::Range<u64>,
) -> Result<()> {
    let first = Name::new(FIRST)?;
    while !numbers.is_empty() {
        let batch = numbers.start..numbers.end.min(numbers.start + BATCH);
        numbers.start = batch.end;
        let job =
            |number| NewJob::new(&first, &format!("{key}-{number}"), &format!(r#"{{"number":{number}}}"#));
        engine.enqueue(batch.map(job).collect::<Result<_, _>>()?, clock.now()).await?;
    }
    Ok(())
}

async fn open_jobs(engine: &dyn Engine) -> Result<u64> {
    let states = [State::Ready, State::Delayed, State::Running, State::Held];
    Ok(engine.counts().await?.iter().flat_map(|counts| states.map(|state| counts.of(state))).sum())
}
