//! What operators do to a pipeline. Every change says how many jobs it is about, and is logged with its author.

use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json as value;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tollway::Timestamp;
use tollway_pipeline::view::{
    JobChange, JobFilter, JobRate, correct, find_dead, set_concurrency, set_paused, stage_of,
};
use tollway_pipeline::{Change, Edit, Engine, State};
use tollway_server::Change as LoggedChange;

use super::body;
use super::source::Pipeline;
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::handler::Asked;

/// How long a request waits for its change. One that takes longer goes on.
const WAIT: Duration = Duration::from_secs(10);

/// What the page has counted and a person has confirmed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirmed {
    #[serde(default)]
    filter: JobFilter,
    /// How many jobs there were.
    expected: u64,
    /// So many a minute, evenly; without it, as fast as the engine allows.
    #[serde(default)]
    per_minute: Option<u64>,
}

pub(super) async fn redrive(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    change_all(pipeline, shared, asked, request, Change::Redrive, "redrive").await
}

pub(super) async fn drop_dead(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    change_all(pipeline, shared, asked, request, Change::Cancel, "drop").await
}

/// Changes all dead letters that match.
async fn change_all(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
    change: Change,
    what: &'static str,
) -> Result<Answer, Problem> {
    let Confirmed { filter, expected, per_minute } = body::json(request).await?;
    let engine = pipeline.engine_to_change().await?;
    let checked = filter.check(Some(State::Dead), &pipeline.config, &*engine).await?;
    let rate = per_minute.map(|jobs| JobRate::read(&format!("{jobs} / minute"))).transpose();
    let rate = rate.map_err(|_| Problem::bad_request("per_minute must be a number above 0"))?;
    let is_slow = rate.is_some();
    let change = JobChange { filter: checked, change, limit: None, rate };
    let matched = change.matched(&*engine).await?.matched;
    if matched > expected {
        let detail =
            format!("there are {matched} dead letters that match by now, and {expected} were confirmed");
        return Err(Problem::conflict(detail).with_jobs(matched));
    }
    let filter = serde_json::to_string(&filter).unwrap_or_default();
    note(shared, pipeline, asked, &format!("{what} {filter}"), &matched.to_string(), "");
    // A task of its own: it goes on if the page is closed.
    let task = tokio::spawn(run(engine, Arc::clone(shared), change, matched));
    if is_slow {
        return Ok(json(&value!({ "jobs": matched, "running": true })));
    }
    match timeout(WAIT, task).await {
        Ok(Ok(changed)) => Ok(json(&value!({ "jobs": changed? }))),
        Ok(Err(error)) => Err(Problem::failed(error.to_string())),
        Err(_) => Ok(json(&value!({ "jobs": matched, "running": true }))),
    }
}

/// Changes jobs step by step, so that workers get their turn in between.
async fn run(
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    change: JobChange,
    most: u64,
) -> Result<u64, Problem> {
    let (mut steps, begun) = (change.steps(most), shared.now());
    loop {
        let now = shared.now();
        let elapsed = now.since(begun);
        if !steps.step(&*engine, elapsed, engine.time(now)).await? {
            return Ok(steps.changed());
        }
        tokio::time::sleep(steps.pause(elapsed).into()).await;
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneOrAll {
    #[serde(default)]
    stage: Option<String>,
}

pub(super) async fn pause(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
    paused: bool,
) -> Result<Answer, Problem> {
    let OneOrAll { stage } = body::json(request).await?;
    let stages = match &stage {
        Some(name) => vec![stage_of(&pipeline.config, name)?],
        None => pipeline.config.stage_names(),
    };
    let engine = pipeline.engine_to_change().await?;
    let stages = set_paused(&*engine, &stages, paused, engine.time(shared.now())).await?;
    let (from, to) = if paused { ("running", "paused") } else { ("paused", "running") };
    let what = stage.map_or_else(|| "all stages".to_owned(), |stage| format!("stage {stage}"));
    note(shared, pipeline, asked, &what, from, to);
    Ok(json(&value!({ "stages": stages })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Concurrency {
    stage: String,
    /// None: as the config says.
    concurrency: Option<u32>,
}

pub(super) async fn concurrency(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    let Concurrency { stage, concurrency } = body::json(request).await?;
    let name = stage_of(&pipeline.config, &stage)?;
    let engine = pipeline.engine_to_change().await?;
    let settings = engine.stages().await?;
    let before = settings.iter().find(|known| known.stage == name).and_then(|known| known.concurrency);
    set_concurrency(&*engine, &name, concurrency, engine.time(shared.now())).await?;
    let words =
        |jobs: Option<u32>| jobs.map_or_else(|| "as in the config".to_owned(), |jobs| jobs.to_string());
    note(
        shared,
        pipeline,
        asked,
        &format!("concurrency of stage {stage}"),
        &words(before),
        &words(concurrency),
    );
    Ok(json(&value!({ "stage": stage, "concurrency": concurrency })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewData {
    data: Box<RawValue>,
    /// `claims` of the job as it was seen: an edit takes the time of a person.
    claims: u64,
}

pub(super) async fn edit(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    let NewData { data, claims } = body::json(request).await?;
    let engine = pipeline.engine_to_change().await?;
    let job = find_dead(&*engine, asked.parameter(1)).await?;
    if job.claim_number != claims {
        return Err(Problem::conflict(format!(
            "dead letter {} was changed meanwhile; look at it again",
            job.id
        )));
    }
    let edit = Edit::default().data(data.get()).map_err(|error| Problem::bad_request(error.to_string()))?;
    correct(&*engine, &job, edit, engine.time(shared.now())).await?;
    // Not the data: the log is for everybody.
    note(shared, pipeline, asked, &format!("data of dead letter {}", job.id), "", "edited");
    Ok(json(&value!({ "id": job.id.get(), "edited": true })))
}

/// Logs a change, and keeps it for the page of the pipeline.
pub(super) fn note(shared: &Shared, pipeline: &Pipeline, asked: &Asked, what: &str, from: &str, to: &str) {
    let (who, target) = (&asked.administrator, pipeline.name());
    tracing::info!(by = %who, pipeline = target, what, from, to, "a pipeline was changed");
    let at: Timestamp = shared.now();
    shared.changes.note(LoggedChange {
        at,
        who: who.to_string(),
        target: target.to_owned(),
        what: what.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    });
}
