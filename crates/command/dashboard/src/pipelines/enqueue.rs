//! Jobs over HTTP: the same records, keys and answer as `tollway pipeline enqueue --json`.

use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use serde::Serialize;
use tollway::Timestamp;
use tollway_pipeline::source::{Format, Records, Source};
use tollway_pipeline::view::stage_of;
use tollway_pipeline::{Engine, EngineError, Enqueued, NewJob, bounds};

use super::body;
use super::notes::{ChangeNotes, to_its_end};
use super::source::Pipeline;
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;

/// How many bad lines are described; the others are counted.
const ERRORS_MAX: usize = 20;

/// The outcome of the records.
#[derive(Default, Serialize)]
struct EnqueueAnswer {
    stage: String,
    dry_run: bool,
    new: u64,
    known: u64,
    /// Keys whose jobs were dropped or cancelled.
    cancelled: u64,
    bad: u64,
    skipped: u64,
    errors: Vec<String>,
    seconds: f64,
}

pub(super) async fn answer(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    let source = source(pipeline, asked)?;
    let again = match asked.query("again") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::bad_request("the parameter again may be true or false")),
    };
    let body = body::read(request).await?;
    let engine = pipeline.engine_to_change().await?;
    let begun = shared.now();
    let now = engine.time(begun);
    let mut answer = EnqueueAnswer { stage: source.stage.to_string(), ..EnqueueAnswer::default() };
    let mut jobs: Vec<NewJob> = Vec::new();
    let mut records = Records::new(source, &body[..], Format::Jsonl);
    loop {
        let next = records.next_record(now).map_err(|error| Problem::bad_request(error.to_string()))?;
        let Some((line, read)) = next else { break };
        answer.skipped += read.skipped.total();
        for error in &read.errors {
            answer.bad += 1;
            if answer.errors.len() < ERRORS_MAX {
                answer.errors.push(format!("line {line}: {error}"));
            }
        }
        jobs.extend(read.jobs.into_iter().map(|job| if again { job.again() } else { job }));
    }
    let notes = ChangeNotes::of(shared, pipeline, asked);
    let answer = to_its_end(async move {
        let stored = store(&*engine, &jobs, now, &mut answer).await;
        answer.seconds = notes.shared.now().since(begun).as_micros() as f64 / 1e6;
        let (what, new) = (format!("jobs of stage {}", answer.stage), format!("{} new", answer.new));
        notes.ended(&what, "", &new, stored)?;
        Ok(answer)
    });
    Ok(json(&answer.await?))
}

/// Adds jobs, and counts what became of them, also of those before an error.
async fn store(
    engine: &dyn Engine,
    jobs: &[NewJob],
    now: Timestamp,
    answer: &mut EnqueueAnswer,
) -> Result<(), EngineError> {
    for batch in jobs.chunks(bounds::BATCH_MAX) {
        for outcome in engine.enqueue(batch.to_vec(), now).await? {
            match outcome {
                Enqueued::New(_) => answer.new += 1,
                Enqueued::Duplicate(_) => answer.known += 1,
                Enqueued::Cancelled(_) => answer.cancelled += 1,
            }
        }
    }
    Ok(())
}

/// The config's source, with what the query says.
fn source(pipeline: &Pipeline, asked: &Asked) -> Result<Source, Problem> {
    let mut source = pipeline.config.source.clone();
    if let Some(stage) = asked.query("stage") {
        source.stage = stage_of(&pipeline.config, stage)?;
    }
    if let Some(key) = asked.query("key") {
        source.key = vec![key.to_owned()];
    }
    Ok(source)
}
