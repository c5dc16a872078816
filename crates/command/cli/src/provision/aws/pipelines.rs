//! Queues of a pipeline's stages, and its ledger.

use tollway::Span;
use tollway_pipeline::{EngineUrl, PipelineConfig, SqsUrl, StageConfig};

use super::queue::{DeadLetters, QueueSpec};
use super::resources::{Resource, Spec, TableUse};
use super::table::TableSpec;

/// The key of a ledger.
const LEDGER_KEY: [(&str, &str); 2] = [("part", "S"), ("sort", "S")];

/// As long as SQS can: a message keeps its age when it moves to a dead-letter queue.
const DEAD_LETTERS_KEPT: Span = Span::from_days(14);

/// The ledger, then the queues of every stage; each dead-letter queue before its queue.
pub(super) fn of(pipeline: &PipelineConfig, max_receives: u32) -> Result<Vec<Resource>, String> {
    let engine = sqs_of(pipeline);
    let connect = engine.map(tollway_sqs::connect).unwrap_or_default();
    let mut resources: Vec<Resource> = engine.map(ledger).into_iter().collect();
    for stage in &pipeline.stages {
        let queues = queues(pipeline, stage, max_receives).map_err(|error| {
            format!("stage {:?} of [pipelines.{}]: {error}", stage.name.as_str(), pipeline.name)
        })?;
        let queues =
            queues.into_iter().map(|queue| Resource { spec: Spec::Queue(queue), connect: connect.clone() });
        resources.extend(queues);
    }
    Ok(resources)
}

/// The names of a stage's queue and of its dead-letter queue. On SQS, every stage has both; elsewhere, those that it names.
pub(super) fn queue_names(
    pipeline: &PipelineConfig,
    stage: &StageConfig,
) -> (Option<String>, Option<String>) {
    let (queue, dead) = (stage.queue.as_deref(), stage.dead_letter_queue.as_deref());
    match sqs_of(pipeline) {
        Some(url) => {
            let (queue, dead) = url.queue_names(&stage.name, queue, dead);
            (Some(queue), Some(dead))
        }
        None => (queue.map(str::to_owned), dead.map(str::to_owned)),
    }
}

fn queues(
    pipeline: &PipelineConfig,
    stage: &StageConfig,
    max_receives: u32,
) -> Result<Vec<QueueSpec>, String> {
    let (Some(queue), dead) = queue_names(pipeline, stage) else { return Ok(Vec::new()) };
    let dead_letters = dead.clone().map(|queue| DeadLetters { queue, max_receives });
    let own = QueueSpec::new(&queue, stage.visibility_timeout, stage.retention, dead_letters)?;
    let dead = dead.map(|dead| QueueSpec::new(&dead, stage.visibility_timeout, DEAD_LETTERS_KEPT, None));
    Ok(dead.transpose()?.into_iter().chain([own]).collect())
}

/// The engine of a pipeline on SQS.
pub(super) fn sqs_of(pipeline: &PipelineConfig) -> Option<&SqsUrl> {
    match &pipeline.engine {
        EngineUrl::Sqs(url) => Some(url),
        _ => None,
    }
}

fn ledger(engine: &SqsUrl) -> Resource {
    let key = LEDGER_KEY.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec();
    let table = TableSpec { name: engine.ledger().to_owned(), key };
    Resource { spec: Spec::Table { table, use_: TableUse::Ledger }, connect: tollway_sqs::connect(engine) }
}
