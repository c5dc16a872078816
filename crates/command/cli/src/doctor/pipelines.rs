//! Pipelines of the config: jobs that no worker claims.

use std::time::Duration;

use tollway::core::Name;
use tollway_pipeline::run::progress::unlisted;
use tollway_pipeline::{EngineError, EngineUrl, PipelineConfig, StageCounts};

use super::finding::{Finding, Findings};
use crate::context::WholeConfig;
use crate::humanize::counted;
use crate::pipeline::engine_opener;

/// How long an engine may take to count its jobs.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// `has_ledger`: whether the tables of pipelines on SQS can be read, as far as is known.
pub(super) async fn look_at(config: &WholeConfig, has_ledger: bool, findings: &mut Findings) {
    let several = config.pipelines().len() > 1;
    for pipeline in config.pipelines() {
        // A file that is not there is made by the first command that needs it.
        if matches!(&pipeline.engine, EngineUrl::Sqlite(file) if !file.exists()) {
            continue;
        }
        // Said already.
        if matches!(&pipeline.engine, EngineUrl::Sqs(_)) && !has_ledger {
            continue;
        }
        let found = tokio::time::timeout(ANSWER_WITHIN, stages_not_in_config(pipeline)).await;
        let failure = match found {
            Ok(Ok(stages)) => {
                findings.checked(format!("pipeline {} in {}", pipeline.name, pipeline.engine));
                stages.iter().for_each(|counts| findings.add(not_in_config(pipeline, counts, several)));
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", ANSWER_WITHIN.as_secs()),
        };
        findings.add(unreachable(pipeline, &failure));
    }
}

async fn stages_not_in_config(pipeline: &PipelineConfig) -> Result<Vec<StageCounts>, EngineError> {
    let engine = engine_opener().open_for_command(&pipeline.engine, false).await?;
    let names: Vec<Name> = pipeline.stages.iter().map(|stage| stage.name.clone()).collect();
    Ok(unlisted(&engine.counts().await?, &names))
}

fn not_in_config(pipeline: &PipelineConfig, counts: &StageCounts, several: bool) -> Finding {
    let (name, stage) = (&pipeline.name, &counts.stage);
    let jobs = counted(counts.open(), "jobs");
    let which = if several { format!(" -p {name}") } else { String::new() };
    Finding::problem(
        "stage-not-in-config",
        format!("{jobs} of pipeline {name} in stage {stage}, which the config lacks"),
        "no worker claims jobs of a stage that was renamed or removed: they wait for ever",
        format!(
            "tollway pipeline{which} move --from {stage} --to STAGE, or add the stage to the config again"
        ),
    )
}

fn unreachable(pipeline: &PipelineConfig, failure: &str) -> Finding {
    Finding::problem(
        "pipeline-unreachable",
        format!("the jobs of pipeline {} cannot be reached: {failure}", pipeline.name),
        "while they cannot be reached, no job begins and none can be enqueued",
        format!("make {} reachable from here; `tollway pipeline status` tries again", pipeline.engine),
    )
}
