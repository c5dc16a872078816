//! Jobs over HTTP: the same records, keys and answer as `tollway pipeline enqueue --json`.

use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use serde::Serialize;
use tollway_pipeline::source::{Format, Records, Source};
use tollway_pipeline::view::stage_of;
use tollway_pipeline::{Enqueued, NewJob, bounds};

use super::source::Pipeline;
use super::{body, change};
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;

/// How many bad lines are described; the others are counted.
const ERRORS_MAX: usize = 20;

/// What became of the records.
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
    for batch in jobs.chunks(bounds::BATCH_MAX) {
        for outcome in engine.enqueue(batch.to_vec(), now).await? {
            match outcome {
                Enqueued::New(_) => answer.new += 1,
                Enqueued::Duplicate(_) => answer.known += 1,
                Enqueued::Cancelled(_) => answer.cancelled += 1,
            }
        }
    }
    answer.seconds = shared.now().since(begun).as_micros() as f64 / 1e6;
    let what = format!("jobs of stage {}", answer.stage);
    change::note(shared, pipeline, asked, &what, "", &format!("{} new", answer.new));
    Ok(json(&answer))
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
