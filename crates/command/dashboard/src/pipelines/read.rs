//! What operators see of a pipeline: its stages, jobs and dead letters.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::Serialize;
use tollway_pipeline::view::{
    DeadLetterKinds, JobFacts, JobFilter, JobView, KindOf, PipelineView, Reason, WhyView, Wording, find,
};
use tollway_pipeline::{EngineError, Filter, Job, JobId, State};

use super::source::Pipeline;
use crate::answer::{Answer, Problem, json};
use crate::dashboard::Shared;
use crate::details::policy::{ChangeView, changes};
use crate::handler::Asked;

/// Jobs on a page.
const PAGE: usize = 50;

/// Kinds of dead letters in one answer.
const KINDS: usize = 100;

#[derive(Serialize)]
struct View {
    #[serde(flatten)]
    pipeline: PipelineView,
    /// The last changes through this process, the newest first.
    changes: Vec<ChangeView>,
}

/// In place of errors, which may quote the data of jobs, without a token.
const ERROR_LEFT_OUT: &str = "the reason needs a token that may read";

pub(super) async fn view(
    pipeline: &Pipeline,
    shared: &Arc<Shared>,
    asked: &Asked,
) -> Result<Answer, Problem> {
    let view = match (read(pipeline, shared).await, asked.may_read()) {
        (view, true) => view?,
        (Ok(view), false) => view.without_errors(ERROR_LEFT_OUT),
        (Err(error), false) => return Err(EngineError { message: ERROR_LEFT_OUT.to_owned(), ..error }.into()),
    };
    Ok(json(&View { pipeline: view, changes: changes(shared, pipeline.name()) }))
}

async fn read(pipeline: &Pipeline, shared: &Arc<Shared>) -> Result<PipelineView, EngineError> {
    match pipeline.runner() {
        Some(runner) => PipelineView::of_runner(&runner, &pipeline.config, &shared.limiter).await,
        None => {
            let engine = pipeline.engine(shared.now()).await?;
            let now = engine.time(shared.now());
            let view = PipelineView::read(&*engine, &pipeline.config, &shared.limiter, now).await?;
            Ok(view.with_live(&*engine, None).await)
        }
    }
}

#[derive(Serialize)]
struct JobsView {
    jobs: Vec<JobView>,
    /// How many match.
    total: u64,
    /// Where the next page begins.
    next: Option<u64>,
}

pub(super) async fn jobs(
    pipeline: &Pipeline,
    shared: &Arc<Shared>,
    asked: &Asked,
) -> Result<Answer, Problem> {
    let engine = pipeline.engine(shared.now()).await?;
    if let Some(search) = asked.query("search").filter(|search| !search.is_empty()) {
        let found = find(&*engine, search).await?;
        let jobs: Vec<JobView> = found.iter().map(JobView::new).collect();
        return Ok(json(&JobsView { total: jobs.len() as u64, jobs, next: None }));
    }
    let text = |name: &str| asked.query(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let filter = JobFilter {
        stage: text("stage"),
        error: text("error"),
        group: text("group"),
        ..JobFilter::default()
    };
    let state = text("state").map(|name| state_of(&name)).transpose()?;
    let filter = filter.check(state, &pipeline.config, &*engine).await?;
    let after = asked.query("from").map(str::parse).transpose();
    let after = after.map_err(|_| Problem::bad_request("the parameter from must be `next` of a page"))?;
    let page = engine.scan(filter.clone(), after.map(JobId::new), PAGE).await?;
    let total = engine.matching(filter).await?;
    let jobs = page.items.iter().map(JobView::new).collect();
    Ok(json(&JobsView { jobs, total, next: page.next.map(JobId::get) }))
}

fn state_of(name: &str) -> Result<State, Problem> {
    State::ALL.into_iter().find(|state| state.as_str() == name).ok_or_else(|| {
        let known: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        Problem::bad_request(format!("the parameter state may be {}", known.join(", ")))
    })
}

/// A job, and what a correction of it must name.
#[derive(Serialize)]
struct VersionedJob {
    #[serde(flatten)]
    job: WhyView,
    version: String,
}

/// Changes with each claim and each correction of a job.
pub(super) fn version_of(job: &Job) -> String {
    let mut hasher = DefaultHasher::new();
    (job.claim_number, &job.data).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

pub(super) async fn job(pipeline: &Pipeline, shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Problem> {
    let engine = pipeline.engine(shared.now()).await?;
    let wording = Wording { zone: TimeZone::UTC, pipeline: Some(pipeline.name().to_owned()) };
    let mut explained = Vec::new();
    for job in find(&*engine, asked.parameter(1)).await? {
        let (now, version) = (engine.time(shared.now()), version_of(&job));
        let facts = JobFacts::read(job, &*engine, &pipeline.config, Some(&shared.limiter), now).await?;
        let reason = Reason::of(&facts, &wording);
        explained.push(VersionedJob { job: WhyView::new(&facts, &reason), version });
    }
    Ok(json(&std::collections::BTreeMap::from([("jobs", explained)])))
}

pub(super) async fn dead(
    pipeline: &Pipeline,
    shared: &Arc<Shared>,
    asked: &Asked,
) -> Result<Answer, Problem> {
    let by = match asked.query("by") {
        None | Some("error") => KindOf::Error,
        Some("stage") => KindOf::Stage,
        Some("group") => KindOf::Group,
        Some(_) => return Err(Problem::bad_request("the parameter by may be error, stage or group")),
    };
    let engine = pipeline.engine(shared.now()).await?;
    let filter = JobFilter { stage: asked.query("stage").map(str::to_owned), ..JobFilter::default() };
    let filter: Filter = filter.check(Some(State::Dead), &pipeline.config, &*engine).await?;
    Ok(json(&DeadLetterKinds::count(&*engine, filter, by, KINDS).await?))
}
