//! The runner, in virtual time with Rust handlers, and in real time with processes.

mod answers;
mod bad_handlers;
mod finished;
mod http;
mod next_job;
mod order;
mod paused;
mod quota;
mod stages;
mod subprocess;
mod unreachable;
mod vendor;

use std::sync::Arc;

use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::{Engine, Filter, Job, NewJob, StageConfig};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A stage with short pauses.
fn stage(text: &str) -> StageConfig {
    StageConfig { backoff: Span::from_millis(10), ..StageConfig::new(name(text)) }
}

/// Stages that hand on from one to the next.
fn chain(mut stages: Vec<StageConfig>) -> Vec<StageConfig> {
    let names: Vec<Name> = stages.iter().map(|stage| stage.name.clone()).collect();
    for (stage, next) in stages.iter_mut().zip(names.into_iter().skip(1)) {
        stage.next = Some(next);
    }
    stages
}

async fn enqueue(engine: &Arc<dyn Engine>, stage: &str, count: usize, now: Timestamp) {
    let jobs: Vec<NewJob> =
        (0..count).map(|n| NewJob::new(&name(stage), &format!("{stage}-{n:05}"), "{}").unwrap()).collect();
    for jobs in jobs.chunks(1_000) {
        engine.enqueue(jobs.to_vec(), now).await.unwrap();
    }
}

async fn jobs(engine: &Arc<dyn Engine>) -> Vec<Job> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = engine.scan(Filter::default(), after, 1_000).await.unwrap();
        jobs.extend(page.items);
        after = page.next;
        if after.is_none() {
            return jobs;
        }
    }
}

/// The error and the detail of a job's newest attempt.
async fn last_attempt(engine: &Arc<dyn Engine>, job: &Job) -> (String, String) {
    let evidence = engine.evidence(job.id).await.unwrap();
    let attempt = &evidence.last().unwrap().attempt;
    (attempt.error().to_owned(), attempt.details().to_owned())
}
