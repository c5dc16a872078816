//! Pipelines: their stages in each snapshot, and jobs, dead letters and operations on request.
//!
//! `source` reaches the jobs, `row` makes the part of a snapshot, `read` and `change` are what operators see and do,
//! `notes` logs what they do, `enqueue` takes jobs over HTTP, `body` reads what was sent. The meaning of it all is `tollway_pipeline::view`'s.

mod body;
mod change;
mod enqueue;
mod notes;
mod read;
mod row;
mod source;

use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Incoming;
use hyper::{Method, Request};
use tollway::Timestamp;
use tollway_pipeline::EngineError;
use tollway_pipeline::view::ViewError;
use tollway_server::AdminRight;

pub use source::PipelineSource;

use crate::answer::{Answer, Problem};
use crate::dashboard::Shared;
use crate::handler::Asked;
use crate::routes::{Route, change, read_jobs};
use crate::snapshot::PipelineRow;
use source::Pipeline;

/// What is asked of a pipeline, or done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipelineEndpoint {
    View,
    Jobs,
    Job,
    Dead,
    Enqueue,
    Redrive,
    Drop,
    Pause,
    Resume,
    Concurrency,
    Edit,
}

/// The routes of pipelines.
pub(crate) static ROUTES: [Route; 11] = [
    read_jobs(
        "/v1/view/pipelines/{pipeline}",
        PipelineEndpoint::View,
        AdminRight::Overview,
        &[],
        "One pipeline, as `tollway pipeline status --json` has it.",
    ),
    read_jobs(
        "/v1/view/pipelines/{pipeline}/jobs",
        PipelineEndpoint::Jobs,
        AdminRight::Read,
        &["stage", "state", "error", "group", "search", "from"],
        "Jobs that match, 50 at a time; `from` is `next` of the page before.",
    ),
    read_jobs(
        "/v1/view/pipelines/{pipeline}/jobs/{id}",
        PipelineEndpoint::Job,
        AdminRight::Read,
        &[],
        "One job, and why it is where it is, as `tollway pipeline why --json` has it; `version` is for a correction.",
    ),
    read_jobs(
        "/v1/view/pipelines/{pipeline}/dead",
        PipelineEndpoint::Dead,
        AdminRight::Read,
        &["by", "stage"],
        "Dead letters, counted by their error, stage or group.",
    ),
    change(
        Method::POST,
        "/v1/pipelines/{pipeline}/jobs",
        PipelineEndpoint::Enqueue,
        &["stage", "again", "key"],
        "Adds jobs: one JSON object a line, as `tollway pipeline enqueue` reads them; at most 1 MiB.",
    ),
    change(
        Method::POST,
        "/v1/pipelines/{pipeline}/redrive",
        PipelineEndpoint::Redrive,
        &[],
        "Tries dead letters again: all that match, unless there are more than expected.",
    ),
    change(
        Method::POST,
        "/v1/pipelines/{pipeline}/drop",
        PipelineEndpoint::Drop,
        &[],
        "Drops dead letters: all that match, unless there are more than expected.",
    ),
    change(
        Method::POST,
        "/v1/pipelines/{pipeline}/pause",
        PipelineEndpoint::Pause,
        &[],
        "Pauses a stage, or all.",
    ),
    change(
        Method::POST,
        "/v1/pipelines/{pipeline}/resume",
        PipelineEndpoint::Resume,
        &[],
        "Lets a stage go on, or all.",
    ),
    change(
        Method::POST,
        "/v1/pipelines/{pipeline}/concurrency",
        PipelineEndpoint::Concurrency,
        &[],
        "Sets how many jobs of a stage may run at a time.",
    ),
    change(
        Method::PUT,
        "/v1/pipelines/{pipeline}/jobs/{id}/data",
        PipelineEndpoint::Edit,
        &[],
        "Corrects the data of a dead letter, unless it has another `version` by now.",
    ),
];

/// The pipelines of the process.
pub(crate) struct Pipelines(Mutex<Vec<Arc<Pipeline>>>);

impl Pipelines {
    pub(crate) fn new(sources: Vec<PipelineSource>) -> Self {
        Self(Mutex::new(sources.into_iter().map(|source| Arc::new(Pipeline::new(source))).collect()))
    }

    /// Shows these from now on. Those whose config is the same stay as they are.
    pub(crate) fn replace(&self, sources: Vec<PipelineSource>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = |new: Pipeline| {
            let known = all.iter().find(|known| known.config == new.config);
            known.map_or_else(|| Arc::new(new), Arc::clone)
        };
        *all = sources.into_iter().map(Pipeline::new).map(kept).collect();
    }

    fn all(&self) -> Vec<Arc<Pipeline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads how far they are, if someone watches.
    pub(crate) async fn look(&self, watched: bool, now: Timestamp) {
        if watched {
            futures_util::future::join_all(self.all().iter().map(|pipeline| pipeline.look(now))).await;
        }
    }

    /// As they were read last.
    pub(crate) fn rows(&self) -> Vec<PipelineRow> {
        self.all().iter().map(|pipeline| pipeline.row()).collect()
    }

    /// Kinds and texts of what is wrong with them.
    pub(crate) fn alarms(&self) -> Vec<(String, String)> {
        self.all().iter().flat_map(|pipeline| pipeline.alarms()).collect()
    }

    fn named(&self, name: &str) -> Result<Arc<Pipeline>, Problem> {
        let all = self.all();
        all.iter().find(|pipeline| pipeline.name() == name).cloned().ok_or_else(|| {
            let name: String = name.chars().take(80).collect();
            let known: Vec<&str> = all.iter().map(|pipeline| pipeline.name()).collect();
            let known = if known.is_empty() { "no pipelines".to_owned() } else { known.join(", ") };
            Problem::not_found(format!("there is no pipeline {name:?} here; there are {known}"))
        })
    }
}

/// Answers a request about one pipeline.
pub(crate) async fn answer(
    operation: PipelineEndpoint,
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Answer, Problem> {
    let pipeline = &shared.pipelines.named(asked.parameter(0))?;
    match operation {
        PipelineEndpoint::View => read::view(pipeline, shared, asked).await,
        PipelineEndpoint::Jobs => read::jobs(pipeline, shared, asked).await,
        PipelineEndpoint::Job => read::job(pipeline, shared, asked).await,
        PipelineEndpoint::Dead => read::dead(pipeline, shared, asked).await,
        PipelineEndpoint::Enqueue => enqueue::answer(pipeline, shared, asked, request).await,
        PipelineEndpoint::Redrive => change::redrive(pipeline, shared, asked, request).await,
        PipelineEndpoint::Drop => change::drop_dead(pipeline, shared, asked, request).await,
        PipelineEndpoint::Pause => change::pause(pipeline, shared, asked, request, true).await,
        PipelineEndpoint::Resume => change::pause(pipeline, shared, asked, request, false).await,
        PipelineEndpoint::Concurrency => change::concurrency(pipeline, shared, asked, request).await,
        PipelineEndpoint::Edit => change::edit(pipeline, shared, asked, request).await,
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error.fault {
            tollway_pipeline::EngineFault::Caller => Self::bad_request(error.message),
            _ => Self::new(
                503,
                "urn:tollway:engine-unavailable",
                "the jobs cannot be reached",
                error.to_string(),
            ),
        }
    }
}

impl From<ViewError> for Problem {
    fn from(error: ViewError) -> Self {
        let with = |message: String, advice: String| {
            if advice.is_empty() { message } else { format!("{message}; {advice}") }
        };
        match error {
            ViewError::NotFound { message, advice } => Self::not_found(with(message, advice)),
            ViewError::Ambiguous { message, advice } => Self::bad_request(with(message, advice)),
            ViewError::Refused { message, advice } => Self::conflict(with(message, advice)),
            ViewError::Engine(error) => error.into(),
        }
    }
}
