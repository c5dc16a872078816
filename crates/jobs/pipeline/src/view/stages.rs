//! Stages: which there are, paused or not, and how many of their jobs may run.

use serde::Serialize;
use tollway_core::{Name, Timestamp};

use super::ViewError;
use crate::run::progress::unlisted;
use crate::{Administration, EngineError, PipelineConfig, StageChange, StageCounts, State};

/// The stage of the config with this name.
pub fn stage_of(config: &PipelineConfig, name: &str) -> Result<Name, ViewError> {
    config.stage(name).map(|stage| stage.name.clone()).ok_or_else(|| {
        let known: Vec<&str> = config.stages.iter().map(|stage| stage.name.as_str()).collect();
        let message = format!("pipeline {} has no stage {name:?}", config.name);
        ViewError::not_found(message, format!("its stages are {}", known.join(", ")))
    })
}

/// A stage of the config, or one that has jobs although the config lacks it.
pub async fn known_stage(
    config: &PipelineConfig,
    engine: &dyn Administration,
    name: &str,
) -> Result<Name, ViewError> {
    match stage_of(config, name) {
        Ok(stage) => Ok(stage),
        Err(unknown) => {
            let counts = engine.counts().await?;
            let found = counts.into_iter().find(|counts| counts.stage.as_str() == name);
            found.map(|counts| counts.stage).ok_or(unknown)
        }
    }
}

/// Stages that the config lacks, with jobs that have not left.
pub fn not_in_config(counts: &[StageCounts], config: &PipelineConfig) -> Vec<StageCounts> {
    unlisted(counts, &config.stage_names())
}

/// A stage that was paused or resumed, and the jobs that this is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PausedStage {
    /// The stage.
    pub stage: Name,
    /// Whether no job is claimed.
    pub paused: bool,
    /// Jobs that can be claimed, but for that.
    pub ready: u64,
    /// Jobs that still run.
    pub running: u64,
}

/// Pauses stages, or lets them go on, for every process.
pub async fn set_paused(
    engine: &dyn Administration,
    stages: &[Name],
    paused: bool,
    now: Timestamp,
) -> Result<Vec<PausedStage>, EngineError> {
    for stage in stages {
        let change = StageChange { paused: Some(paused), ..StageChange::default() };
        engine.set_stage(stage, change, now).await?;
    }
    let counts = engine.counts().await?;
    let of = |stage: &Name| {
        let jobs =
            |state| counts.iter().find(|counts| counts.stage == *stage).map_or(0, |counts| counts.of(state));
        PausedStage { stage: stage.clone(), paused, ready: jobs(State::Ready), running: jobs(State::Running) }
    };
    Ok(stages.iter().map(of).collect())
}

/// Lets this many jobs of a stage run at a time; none: as many as the config says.
pub async fn set_concurrency(
    engine: &dyn Administration,
    stage: &Name,
    jobs: Option<u32>,
    now: Timestamp,
) -> Result<(), EngineError> {
    engine.set_stage(stage, StageChange { concurrency: Some(jobs), ..StageChange::default() }, now).await
}

/// How many jobs may run at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConcurrencyView {
    /// In all stages together, of each process; none: as many as the stages allow.
    pub total: Option<u32>,
    /// In each stage.
    pub stages: Vec<StageConcurrency>,
}

/// How many jobs of a stage may run at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageConcurrency {
    /// The stage.
    pub stage: Name,
    /// How many run.
    pub running: u64,
    /// How many may.
    pub concurrency: u32,
    /// How many may according to the config.
    pub config: u32,
    /// An operator has set it, in place of the config.
    #[serde(skip)]
    pub is_set: bool,
}

impl ConcurrencyView {
    /// All stages of the config.
    pub async fn read(engine: &dyn Administration, config: &PipelineConfig) -> Result<Self, EngineError> {
        let (settings, counts) = (engine.stages().await?, engine.counts().await?);
        let stages = config.stages.iter().map(|stage| {
            let set = settings.iter().find(|known| known.stage == stage.name);
            let set = set.and_then(|known| known.concurrency);
            let counts = counts.iter().find(|counts| counts.stage == stage.name);
            StageConcurrency {
                stage: stage.name.clone(),
                running: counts.map_or(0, |counts| counts.of(State::Running)),
                concurrency: set.unwrap_or(stage.concurrency),
                config: stage.concurrency,
                is_set: set.is_some(),
            }
        });
        Ok(Self { total: config.concurrency, stages: stages.collect() })
    }
}
