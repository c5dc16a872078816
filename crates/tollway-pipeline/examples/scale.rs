//! Measures an engine with a small and a large backlog, in SQLite files of a folder or in a Postgres:
//! `cargo run --release -p tollway-pipeline --example scale -- FOLDER|postgres://... [JOBS]`
#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::{
    ClaimRequest, Conclusion, Engine, Filter, NewJob, Output, PostgresEngine, SqliteEngine, State,
};

const WORKERS: usize = 128;
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let place = arguments.next().unwrap_or_else(|| ".".to_owned());
    let large = arguments.next().and_then(|jobs| jobs.parse().ok()).unwrap_or(1_000_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for jobs in [20_000, large] {
        if place.starts_with("postgres") {
            // A schema for each; they stay until they are dropped by hand.
            let separator = if place.contains('?') { '&' } else { '?' };
            let url = format!("{place}{separator}schema=tollway_scale_{jobs}");
            runtime.block_on(measure(Arc::new(PostgresEngine::open(&url).unwrap()), jobs));
            continue;
        }
        let path = Path::new(&place).join(format!("scale-{jobs}.db"));
        runtime.block_on(measure(Arc::new(SqliteEngine::open(&path).unwrap()), jobs));
        println!("  file: {} MiB", std::fs::metadata(&path).unwrap().len() >> 20);
        for suffix in ["", "-owner", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
    }
}

async fn measure(engine: Arc<dyn Engine>, jobs: u64) {
    let (autotag, extract) = (Name::new("autotag").unwrap(), Name::new("extract").unwrap());
    let started = Instant::now();
    let mut last = None;
    for start in (0..jobs).step_by(1_000) {
        let batch = (start..(start + 1_000).min(jobs)).map(|n| job(&autotag, n)).collect();
        // The next batch is made while the last one is written.
        if let Some(written) = last.replace(tokio::spawn(engine.enqueue(batch, NOW))) {
            written.await.unwrap().unwrap();
        }
    }
    last.unwrap().await.unwrap().unwrap();
    report("enqueue", jobs, started.elapsed());

    let started = Instant::now();
    let counts = engine.counts().await.unwrap();
    println!("  counts: {:?} in {:?}", counts[0].of(State::Ready), started.elapsed());
    let started = Instant::now();
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    engine.scan(dead, None, 100).await.unwrap();
    println!("  scan of no dead letters in {:?}", started.elapsed());

    // The log of the import is written back first.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let started = Instant::now();
    let mut claims = 0;
    while started.elapsed() < Duration::from_secs(2) && claims < 15_000 {
        let request = ClaimRequest::new(&autotag, "w", Span::from_mins(15)).cost(Default::default());
        claims += engine.claim(request, NOW).await.unwrap().len() as u64;
    }
    report("claim, one by one", claims, started.elapsed());

    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (engine, done, autotag, extract) =
                (engine.clone(), done.clone(), autotag.clone(), extract.clone());
            tokio::spawn(async move {
                while started.elapsed() < Duration::from_secs(3) {
                    let request = ClaimRequest::new(&autotag, "w", Span::from_mins(15));
                    for claimed in engine.claim(request, NOW).await.unwrap() {
                        let outputs = vec![Output::new(&extract, &claimed.job.data).unwrap()];
                        let conclusion = Conclusion::Done { outputs, result: None };
                        engine.finish(claimed.claim, conclusion, NOW).await.unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    report("claim and hand off, 128 workers", done.load(Ordering::Relaxed), started.elapsed());
}

fn job(stage: &Name, n: u64) -> NewJob {
    let group = n / 4;
    let data = format!(
        "{{\"bucket\":\"your-bucket-name\",\"chunk_key\":\"uploads/job-{group}/chunks/chunk_{n:07}.pdf\",\
         \"original_file_key\":\"uploads/job-{group}/original.pdf\",\"job_id\":\"job-{group}\",\
         \"timestamp\":\"2025-02-19T10:30:00Z\"}}"
    );
    NewJob::new(stage, &format!("chunk_{n:07}"), &data).unwrap().group(&format!("job-{group}")).unwrap()
}

fn report(what: &str, jobs: u64, took: Duration) {
    println!("{what}: {jobs} in {took:.2?}, {:.0}/s", jobs as f64 / took.as_secs_f64());
}
