//! Other job queues, on the work of the bench's group `pipeline`: two empty stages.
//!
//! `queue-rivals QUEUE WORKERS JOBS PLACE` enqueues the jobs, works until all have left both stages and are recorded as done,
//! and prints the seconds between the start of the workers and that moment. PLACE is a SQLite file that does not exist yet,
//! or the URL of an empty Postgres database.

mod apalis;
mod finished;
mod graphile;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteSynchronous;

/// The smallest job.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Job {
    number: u64,
}

/// What every queue gets.
struct Work {
    workers: usize,
    jobs: u64,
    place: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [queue, workers, jobs, place] = arguments.as_slice() else {
        bail!("usage: queue-rivals apalis|apalis-off|graphile WORKERS JOBS PLACE");
    };
    let work = Work {
        workers: workers.parse().context("the number of workers")?,
        jobs: jobs.parse().context("the number of jobs")?,
        place: place.clone(),
    };
    let took: Duration = match queue.as_str() {
        "apalis" => apalis::drain(&work, SqliteSynchronous::Full).await?,
        "apalis-off" => apalis::drain(&work, SqliteSynchronous::Off).await?,
        "graphile" => graphile::drain(&work).await?,
        other => bail!("there is no queue {other}"),
    };
    println!("{}", took.as_secs_f64());
    Ok(())
}
