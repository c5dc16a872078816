//! A pipeline as data: its stages, its end, what it takes from, and what only its process knows.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use tollway::Limiter;
use tollway_core::{Name, Timestamp};

use super::quota::Quota;
use super::text::as_text;
use super::{PolicyQuota, ViewError};
use crate::run::progress::Progress;
use crate::run::{EngineOutage, Runner, RunnerView};
use crate::{Engine, EngineError, PipelineConfig, StageCounts, State};

/// How a pipeline is.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineView {
    /// Its name.
    pub pipeline: Name,
    /// What keeps its jobs, without a password.
    pub engine: String,
    /// Its stages, and its end or why none is in sight.
    #[serde(flatten)]
    pub progress: Progress,
    /// What its stages take from.
    pub quota: Vec<PolicyQuota>,
    /// What is known beside counts and limits; none: it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveView>,
}

/// What changes all the time, and what only the process knows that runs the pipeline.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LiveView {
    /// What that process knows: alarms, handlers it cannot reach, call times, the last error.
    #[serde(flatten)]
    pub runner: RunnerView,
    /// When the next job of a stage is tried again.
    pub next_due: BTreeMap<Name, Timestamp>,
    /// The engine does not answer: all figures but those of the quota are missing.
    pub engine_away: Option<EngineAwayView>,
}

/// An engine that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineAwayView {
    /// Since when.
    #[serde(serialize_with = "as_text")]
    pub since: Timestamp,
    /// How the last call failed.
    pub error: String,
    /// Finished answers that are kept until they can be stored.
    pub kept: usize,
}

impl From<EngineOutage> for EngineAwayView {
    fn from(outage: EngineOutage) -> Self {
        Self { since: outage.since, error: outage.error.to_string(), kept: outage.kept }
    }
}

impl PipelineView {
    /// For a process beside those that run the pipeline.
    pub async fn read(
        engine: &dyn Engine,
        config: &PipelineConfig,
        limiter: &Limiter,
        now: Timestamp,
    ) -> Result<Self, EngineError> {
        let progress = Progress::read(engine, &config.stage_names(), now).await?;
        Ok(Self::of(progress, config, limiter).await)
    }

    /// For the process that runs the pipeline, with all that it knows. While the engine is away, it has no stages.
    pub async fn of_runner(
        runner: &Runner,
        config: &PipelineConfig,
        limiter: &Limiter,
    ) -> Result<Self, EngineError> {
        let progress = match runner.engine_outage() {
            None => runner.progress().await,
            Some(outage) => Err(outage.error),
        };
        // The outage may have begun with this look.
        let Some(outage) = runner.engine_outage() else {
            let view = Self::of(progress?, config, limiter).await;
            return Ok(view.with_live(runner.engine(), Some(runner.view()())).await);
        };
        let view = Self::of(Progress::unknown(runner.now()), config, limiter).await;
        let engine_away = Some(EngineAwayView::from(outage));
        let live = LiveView { runner: runner.view()(), engine_away, ..LiveView::default() };
        Ok(Self { live: Some(live), ..view })
    }

    /// With progress that is known already: reads the limits.
    pub async fn of(progress: Progress, config: &PipelineConfig, limiter: &Limiter) -> Self {
        let quota = Quota::read(limiter, config, progress.at).await;
        Self {
            pipeline: config.name.clone(),
            engine: config.engine.to_string(),
            progress: quota.complete(progress, config),
            quota: quota.policies,
            live: None,
        }
    }

    /// Adds what is known beside counts. `own`: this process runs the pipeline; else the one is asked that does, where it can be.
    pub async fn with_live(self, engine: &dyn Engine, own: Option<RunnerView>) -> Self {
        let mut next_due = BTreeMap::new();
        for stage in self.progress.stages.iter().filter(|stage| stage.retrying > 0) {
            // An engine that fails says so elsewhere.
            if let Ok(peek) = engine.peek(&stage.stage, self.progress.at).await {
                next_due.extend(peek.next_at.map(|at| (stage.stage.clone(), at)));
            }
        }
        let runner = match own {
            Some(own) => own,
            None => engine.runner_view().await.ok().flatten().unwrap_or_default(),
        };
        Self { live: Some(LiveView { runner, next_due, engine_away: None }), ..self }
    }

    /// The same for people who may see no errors, because they may quote the data of jobs: with `instead` in their place.
    #[must_use]
    pub fn without_errors(mut self, instead: &str) -> Self {
        for outage in self.progress.stages.iter_mut().filter_map(|stage| stage.unreachable.as_mut()) {
            outage.error = instead.to_owned();
        }
        let hide = |live: LiveView| {
            let engine_away =
                live.engine_away.map(|away| EngineAwayView { error: instead.to_owned(), ..away });
            LiveView { runner: live.runner.without_errors(instead), engine_away, ..live }
        };
        Self { live: self.live.map(hide), ..self }
    }

    /// Whether no stage is paused, has dead letters, or has jobs and is not in the config.
    pub fn is_healthy(&self) -> bool {
        let Progress { stages, unlisted, .. } = &self.progress;
        stages.iter().all(|stage| !stage.paused && stage.dead == 0) && unlisted.is_empty()
    }
}

/// How many jobs of a stage are in which state: `{"stage": "extract", "ready": 9, ...}`.
#[derive(Clone, Copy, Debug)]
pub struct StageJobs<'c>(&'c StageCounts);

impl<'c> StageJobs<'c> {
    /// The jobs of these counts, without their events.
    pub fn of(counts: &'c StageCounts) -> Self {
        Self(counts)
    }
}

impl Serialize for StageJobs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("stage", self.0.stage.as_str())?;
        for state in State::ALL {
            fields.serialize_entry(state.as_str(), &self.0.of(state))?;
        }
        fields.end()
    }
}

/// The jobs of one group, by stage and state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The group.
    pub group: String,
    /// The stages in which it has jobs.
    pub stages: Vec<StageCounts>,
}

impl GroupView {
    /// A group without jobs is an error.
    pub async fn read(engine: &dyn Engine, group: &str) -> Result<Self, ViewError> {
        let stages = engine.group_counts(group).await?;
        match stages.is_empty() {
            false => Ok(Self { group: group.to_owned(), stages }),
            true => Err(ViewError::not_found(
                format!("there is no job of group {group:?}"),
                "done jobs are forgotten after the stage's retention",
            )),
        }
    }
}

impl Serialize for GroupView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("group", &self.group)?;
        fields.serialize_entry("stages", &self.stages.iter().map(StageJobs::of).collect::<Vec<_>>())?;
        fields.end()
    }
}
