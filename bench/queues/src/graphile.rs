//! graphile_worker on Postgres: a task for each stage. The first adds a job of the second.

use std::time::Duration;

use anyhow::{Result, anyhow};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerContextExt,
    WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::finished::Finished;
use crate::{Job, Work};

/// As in its own benches.
const POLL: Duration = Duration::from_millis(10);
const LOCAL_QUEUE: usize = 100;
const CONNECTIONS: u32 = 100;

/// Jobs that are added at a time.
const BATCH: usize = 1_000;

#[derive(Clone, Deserialize, Serialize)]
struct First(Job);

#[derive(Clone, Deserialize, Serialize)]
struct Second(Job);

impl TaskHandler for First {
    const IDENTIFIER: &'static str = "first";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        context.add_job(Second(self.0), JobSpec::default()).await.map(|_| ())
    }
}

impl TaskHandler for Second {
    const IDENTIFIER: &'static str = "second";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(finished) = context.get_ext::<Finished>() {
            finished.add();
        }
        Ok::<(), String>(())
    }
}

pub(crate) async fn drain(work: &Work) -> Result<Duration> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&work.place).await?;
    let finished = Finished::default();
    let worker = WorkerOptions::default()
        .pg_pool(pool.clone())
        .concurrency(work.workers)
        .poll_interval(POLL)
        .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE))
        .add_extension(finished.clone())
        .define_job::<First>()
        .define_job::<Second>()
        .init()
        .await?;
    let utils = worker.create_utils();
    let spec = JobSpec::default();
    let jobs: Vec<_> = (0..work.jobs).map(|number| (First(Job { number }), &spec)).collect();
    for jobs in jobs.chunks(BATCH) {
        utils.add_jobs::<First>(jobs).await?;
    }
    tokio::select! {
        ended = worker.run() => Err(anyhow!("the worker ended: {ended:?}")),
        took = finished.wait(work.jobs, || unrecorded(&pool)) => took,
    }
}

/// A finished job is deleted.
async fn unrecorded(pool: &PgPool) -> Result<bool> {
    let left = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM graphile_worker._private_jobs)");
    Ok(left.fetch_one(pool).await?)
}
