//! What operators do to a pipeline. Every change says how many jobs it is about, and is logged with its author.

use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json as value;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tollway::Span;
use tollway_pipeline::view::{
    ChangeSteps, JobChange, JobFilter, JobRate, ViewError, correct, find_dead, set_concurrency, set_paused,
    stage_of,
};
use tollway_pipeline::{Change, Edit, Engine, EngineError, State};

use super::body;
use super::notes::{ChangeNotes, to_its_end};
use super::read::version_of;
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
    verb: &'static str,
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
    let notes = ChangeNotes::of(shared, pipeline, asked);
    let stage = filter.stage.as_ref().map(|stage| format!(" of stage {stage}")).unwrap_or_default();
    let what = format!("{verb} dead letters{stage}");
    notes.begins(&what, &serde_json::to_string(&filter).unwrap_or_default(), matched);
    // A task of its own: it goes on if the page is closed.
    let task = tokio::spawn(run(notes, what, change.steps(matched), matched, engine));
    if is_slow {
        return Ok(json(&value!({ "jobs": matched, "running": true })));
    }
    match timeout(WAIT, task).await {
        Ok(Ok(changed)) => Ok(json(&value!({ "jobs": changed? }))),
        Ok(Err(error)) => Err(Problem::failed(error.to_string())),
        Err(_) => Ok(json(&value!({ "jobs": matched, "running": true }))),
    }
}

/// Changes jobs, and notes how many were changed in the end.
async fn run(
    notes: ChangeNotes,
    what: String,
    mut steps: ChangeSteps,
    most: u64,
    engine: Arc<dyn Engine>,
) -> Result<u64, Problem> {
    let ended = step_by_step(&notes.pipeline, &notes.shared, &mut steps, engine).await;
    let changed = steps.changed();
    notes.ended(&what, &counted(most), &format!("{} changed", counted(changed)), ended)?;
    Ok(changed)
}

fn counted(jobs: u64) -> String {
    if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") }
}

/// Gives the engine back in every pause: then workers get their turn, and another process can run the pipeline of a SQLite
/// file.
async fn step_by_step(
    pipeline: &Pipeline,
    shared: &Shared,
    steps: &mut ChangeSteps,
    engine: Arc<dyn Engine>,
) -> Result<(), EngineError> {
    let (mut open, begun) = (Some(engine), shared.now());
    loop {
        let engine = match open.take() {
            Some(engine) => engine,
            None => pipeline.engine_to_change().await?,
        };
        let now = shared.now();
        let elapsed = now.since(begun);
        if !steps.step(&*engine, elapsed, engine.time(now)).await? {
            return Ok(());
        }
        let pause = steps.pause(elapsed);
        open = (pause == Span::ZERO).then_some(engine);
        tokio::time::sleep(pause.into()).await;
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
    let (from, to) = if paused { ("running", "paused") } else { ("paused", "running") };
    let what = stage.map_or_else(|| "all stages".to_owned(), |stage| format!("stage {stage}"));
    let (notes, now) = (ChangeNotes::of(shared, pipeline, asked), engine.time(shared.now()));
    let stages = to_its_end(async move {
        let changed = set_paused(&*engine, &stages, paused, now).await;
        Ok(notes.ended(&what, from, to, changed)?)
    });
    Ok(json(&value!({ "stages": stages.await? })))
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
    let words =
        |jobs: Option<u32>| jobs.map_or_else(|| "as in the config".to_owned(), |jobs| jobs.to_string());
    let (from, to, what) = (words(before), words(concurrency), format!("concurrency of stage {stage}"));
    let (notes, now) = (ChangeNotes::of(shared, pipeline, asked), engine.time(shared.now()));
    to_its_end(async move {
        let changed = set_concurrency(&*engine, &name, concurrency, now).await;
        Ok(notes.ended(&what, &from, &to, changed)?)
    })
    .await?;
    Ok(json(&value!({ "stage": stage, "concurrency": concurrency })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewData {
    data: Box<RawValue>,
    /// `version` of the job as it was seen: an edit takes the time of a person.
    version: String,
}

pub(super) async fn edit(
    pipeline: &Arc<Pipeline>,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    let NewData { data, version } = body::json(request).await?;
    let engine = pipeline.engine_to_change().await?;
    let job = find_dead(&*engine, asked.parameter(1)).await?;
    let id = job.id;
    if version_of(&job) != version {
        return Err(Problem::conflict(format!("dead letter {id} was changed meanwhile; look at it again")));
    }
    let edit = Edit::default().data(data.get()).map_err(|error| Problem::bad_request(error.to_string()))?;
    let (notes, now) = (ChangeNotes::of(shared, pipeline, asked), engine.time(shared.now()));
    to_its_end(async move {
        // Not the data: pages without a token show changes.
        let what = format!("data of dead letter {id}");
        match correct(&*engine, &job, edit, now).await {
            Ok(()) => notes.made(&what, "", "edited"),
            Err(ViewError::Engine(error)) => notes.ended(&what, "", "edited", Err(error))?,
            Err(refused) => return Err(refused.into()),
        }
        Ok(())
    })
    .await?;
    Ok(json(&value!({ "id": id.get(), "edited": true })))
}
