//! Queues of a pipeline's stages, and its ledger.

use tollway::Span;
use tollway_aws::Connect;
use tollway_pipeline::{PipelineConfig, StageConfig};

use super::queue::{DeadLetters, QueueSpec};
use super::resources::{Resource, Spec, TableUse};
use super::table::TableSpec;

/// The key of a ledger.
const LEDGER_KEY: [(&str, &str); 2] = [("part", "S"), ("sort", "S")];

/// As long as SQS can: a message keeps its age when it moves to a dead-letter queue.
const DEAD_LETTERS_KEPT: Span = Span::from_days(14);

/// The ledger, then the queues of every stage; each dead-letter queue before its queue.
pub(super) fn of(pipeline: &PipelineConfig, max_receives: u32) -> Result<Vec<Resource>, String> {
    let ledger = Ledger::of(pipeline);
    let connect = ledger.as_ref().map(|ledger| ledger.connect.clone()).unwrap_or_default();
    let mut resources: Vec<Resource> = ledger.and_then(Ledger::resource).into_iter().collect();
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
    let table = Ledger::of(pipeline).and_then(|ledger| ledger.table);
    let usual = |table: &String| format!("{table}-{}", stage.name.as_str());
    let queue = stage.queue.clone().or_else(|| table.as_ref().map(usual));
    let usual = || table.is_some().then(|| queue.as_ref().map(|queue| format!("{queue}-dead"))).flatten();
    let dead = stage.dead_letter_queue.clone().or_else(usual);
    (queue, dead)
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

/// What an engine's URL says behind `sqs:`. The engine checks it; its secrets are not part of it.
struct Ledger {
    table: Option<String>,
    connect: Connect,
}

impl Ledger {
    /// Of a pipeline on SQS.
    fn of(pipeline: &PipelineConfig) -> Option<Self> {
        pipeline.engine.to_string().strip_prefix("sqs:").map(Self::parse)
    }

    fn parse(rest: &str) -> Self {
        let mut ledger = Self { table: None, connect: Connect::default() };
        for pair in rest.trim_start_matches('?').split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = Some(value.to_owned()).filter(|value| !value.is_empty());
            match name {
                "ledger" => ledger.table = value,
                "region" => ledger.connect.region = value,
                "endpoint" => ledger.connect.endpoint = value,
                _ => {}
            }
        }
        ledger
    }

    fn resource(self) -> Option<Resource> {
        let key = LEDGER_KEY.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec();
        let table = TableSpec { name: self.table?, key };
        Some(Resource { spec: Spec::Table { table, use_: TableUse::Ledger }, connect: self.connect })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledger_of_an_engine_is_a_table() {
        let ledger = Ledger::parse("?ledger=jobs&region=eu-west-1&endpoint=http://127.0.0.1:1");
        assert_eq!(ledger.connect.region.as_deref(), Some("eu-west-1"));
        let resource = ledger.resource().unwrap();
        assert_eq!((resource.kind(), resource.name()), ("table", "jobs"));
        assert!(Ledger::parse("").resource().is_none());
    }
}
