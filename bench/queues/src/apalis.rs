//! apalis on SQLite: a queue and a worker for each stage. The handler of the first pushes to the second.

use std::time::Duration;

use anyhow::Result;
use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteStorage};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::finished::Finished;
use crate::{Job, Work};

// The settings with which it was fastest here, of those tried.

/// How often an empty queue is looked at. Without, it waits for the next heartbeat.
const POLL: Duration = Duration::from_millis(10);
/// Its default is 30 s. Sometimes it records the end of a job only then.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Its default is 10.
const BATCH: usize = 128;
/// The default of its pool is 10: they wait for each other's locks, and 13 jobs a second get through.
const CONNECTIONS: u32 = 1;

pub(crate) async fn drain(work: &Work, synchronous: SqliteSynchronous) -> Result<Duration> {
    let pool = open(&work.place, synchronous).await?;
    let storage = |queue: &str| {
        let config = Config::default().queue(queue).batch_size(BATCH).heartbeat_interval(HEARTBEAT);
        SqliteStorage::<Job>::new(&pool).with_config(config)
    };
    let (mut first, second) = (storage("first"), storage("second"));
    first.push_bulk((0..work.jobs).map(|number| Job { number }).collect()).await?;

    let finished = Finished::default();
    let next = second.clone();
    let hand_on = move |job: Job| {
        let mut next = next.clone();
        async move { next.push(job).await.map_err(BoxDynError::from) }
    };
    let counted = finished.clone();
    let end = move |_: Job| {
        counted.add();
        async { Ok::<_, BoxDynError>(()) }
    };
    let first = WorkerBuilder::new("first")
        .backend(first.poll_with_interval(POLL))
        .concurrency(work.workers)
        .build(hand_on);
    let second = WorkerBuilder::new("second")
        .backend(second.poll_with_interval(POLL))
        .concurrency(work.workers)
        .build(end);
    let workers = [tokio::spawn(first.run()), tokio::spawn(second.run())];
    let took = finished.wait(work.jobs, || unrecorded(&pool)).await?;
    workers.iter().for_each(|worker| worker.abort());
    Ok(took)
}

/// Its setup switches `synchronous` off, for the connection that runs it: the workers get other connections.
async fn open(file: &str, synchronous: SqliteSynchronous) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let setup = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    SqliteStorage::setup(&setup).await?;
    setup.close().await;
    let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(synchronous);
    Ok(SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await?)
}

async fn unrecorded(pool: &SqlitePool) -> Result<bool> {
    let left = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM Jobs WHERE status <> 'Done')");
    Ok(left.fetch_one(pool).await?)
}
