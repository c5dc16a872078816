//! What a run has done, at its end.

use serde_json::{Value, json};
use tollway::{Name, Span};
use tollway_pipeline::view::not_in_config;
use tollway_pipeline::{Engine, EngineError, PipelineConfig, StageCounts, State};

use super::super::stage_names::{move_command, names, remark};
use crate::failure::{Exit, Failure};
use crate::humanize::{self, count, counted};
use crate::output::{GOOD, Output, WARN};
use crate::stopwatch::Stopwatch;

/// What a run has done.
pub(super) struct Summary {
    pipeline: String,
    stages: Vec<StageSummary>,
    /// It worked on some stages only.
    partly: bool,
    /// Stages that the config lacks, with jobs.
    not_in_config: Vec<StageCounts>,
    /// Its stages that are paused, and have jobs.
    paused: Vec<Name>,
    stopwatch: Stopwatch,
    took: Span,
    stopped: bool,
    given_back: usize,
}

/// What it has done in a stage.
struct StageSummary {
    before: StageCounts,
    after: StageCounts,
}

impl StageSummary {
    fn done(&self) -> u64 {
        self.after.events.completed.saturating_sub(self.before.events.completed)
    }

    fn open(&self) -> u64 {
        [State::Ready, State::Delayed, State::Held, State::Running]
            .map(|state| self.after.of(state))
            .iter()
            .sum()
    }
}

impl Summary {
    /// Counts from here.
    pub(super) async fn begin(
        config: &PipelineConfig,
        only: Option<&[Name]>,
        engine: &dyn Engine,
    ) -> Result<Self, EngineError> {
        let stopwatch = Stopwatch::start();
        let counts = engine.counts().await?;
        let stage = |name: &Name| {
            let found = counts.iter().find(|counts| counts.stage == *name).cloned();
            let before = found.unwrap_or_else(|| StageCounts::empty(name.clone()));
            StageSummary { after: before.clone(), before }
        };
        let names = config.stages.iter().map(|config| &config.name);
        let worked = names.filter(|name| only.is_none_or(|only| only.contains(name)));
        Ok(Self {
            pipeline: config.name.to_string(),
            stages: worked.map(stage).collect(),
            partly: only.is_some(),
            not_in_config: not_in_config(&counts, config),
            paused: Vec::new(),
            stopwatch,
            took: Span::ZERO,
            stopped: false,
            given_back: 0,
        })
    }

    /// Counts to here.
    pub(super) async fn end(
        &mut self,
        config: &PipelineConfig,
        engine: &dyn Engine,
        stopped: bool,
        given_back: usize,
    ) -> Result<(), Failure> {
        let counts = engine.counts().await?;
        for stage in &mut self.stages {
            if let Some(found) = counts.iter().find(|counts| counts.stage == stage.before.stage) {
                stage.after = found.clone();
            }
        }
        self.not_in_config = not_in_config(&counts, config);
        let settings = engine.stages().await?;
        let is_paused = |name: &&Name| settings.iter().any(|known| known.stage == **name && known.paused);
        let with_jobs = self.stages.iter().filter(|stage| stage.open() > 0).map(|stage| &stage.after.stage);
        self.paused = with_jobs.filter(is_paused).cloned().collect();
        (self.stopped, self.given_back, self.took) = (stopped, given_back, self.stopwatch.elapsed());
        Ok(())
    }

    fn left(&self) -> u64 {
        self.stages.iter().map(StageSummary::open).sum()
    }

    fn dead(&self) -> u64 {
        self.stages.iter().map(|stage| stage.after.of(State::Dead)).sum()
    }

    /// Whether nothing is left but dead letters.
    pub(super) fn is_done(&self) -> bool {
        self.left() == 0 && self.not_in_config.is_empty()
    }

    /// `all jobs are done`, or what is left and why.
    fn outcome(&self) -> String {
        let paused = self.paused.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
        match (self.left(), self.stopped) {
            (0, _) if !self.not_in_config.is_empty() => {
                let jobs = self.not_in_config.iter().map(StageCounts::open).sum();
                let names = names(&self.not_in_config);
                let missing = counted(jobs, "jobs");
                format!(
                    "no job is left in the stages of the config, but {missing} in {names}, which it lacks"
                )
            }
            (0, _) if self.partly => "all jobs of these stages are done".to_owned(),
            (0, _) => "all jobs are done".to_owned(),
            (left, true) => format!("stopped, {} left", counted(left, "jobs")),
            (left, false) if !self.paused.is_empty() => {
                format!("{} left, and {paused} is paused", counted(left, "jobs"))
            }
            (left, false) => format!("{} left", counted(left, "jobs")),
        }
    }

    /// One sentence.
    pub(super) fn sentence(&self) -> String {
        let each = self.stages.iter().map(|stage| format!("{} {}", stage.before.stage, count(stage.done())));
        let each = each.collect::<Vec<_>>().join(", ");
        let end = self.outcome();
        let dead = match self.dead() {
            0 => String::new(),
            dead => format!(", {}", counted(dead, "dead letters")),
        };
        let took = humanize::span(self.took);
        let given_back = match self.given_back {
            0 => String::new(),
            jobs => format!(", {} given back", counted(u64::try_from(jobs).unwrap_or(u64::MAX), "jobs")),
        };
        format!("{end}{dead}{given_back}; done in {took}: {each}")
    }

    pub(super) fn to_json(&self) -> Value {
        let stage = |stage: &StageSummary| {
            let since =
                |count: fn(&StageCounts) -> u64| count(&stage.after).saturating_sub(count(&stage.before));
            json!({
                "stage": stage.before.stage.as_str(),
                "done": stage.done(),
                "failures": since(|counts| counts.events.failures),
                "crashes": since(|counts| counts.events.crashes),
                "rate_limited": since(|counts| counts.events.rate_limited),
                "late_answers": since(|counts| counts.events.late),
                "left": stage.open(),
                "dead": stage.after.of(State::Dead),
            })
        };
        let missing = |counts: &StageCounts| json!({ "stage": counts.stage.as_str(), "jobs": counts.open() });
        json!({
            "pipeline": self.pipeline,
            "done": self.is_done(),
            "stopped": self.stopped,
            "paused": self.paused.iter().map(Name::as_str).collect::<Vec<_>>(),
            "not_in_config": self.not_in_config.iter().map(missing).collect::<Vec<_>>(),
            "given_back": self.given_back,
            "seconds": self.took.as_micros() as f64 / 1e6,
            "stages": self.stages.iter().map(stage).collect::<Vec<_>>(),
        })
    }

    /// Prints it, and says how to exit.
    pub(super) fn print(&self, output: &Output) -> Result<Exit, Failure> {
        let exit = match (self.left(), self.dead()) {
            (1.., _) if self.stopped || !self.paused.is_empty() => Exit::DENIED,
            (_, 1..) => Exit::DATA,
            _ if !self.not_in_config.is_empty() => Exit::DATA,
            _ => Exit::DONE,
        };
        if output.is_json() {
            output.json(&self.to_json())?;
            return Ok(exit);
        }
        let style = if exit == Exit::DONE { GOOD } else { WARN };
        output.line(format_args!("{style}{}{style:#}", self.sentence()))?;
        if self.dead() > 0 {
            output.note("  see why: tollway pipeline dead list --group-by error");
        }
        for stage in &self.paused {
            output.note(format_args!("  go on with {stage}: tollway pipeline resume {stage}"));
        }
        for counts in &self.not_in_config {
            output.note(format_args!("  {}: {}", remark(counts), move_command(&counts.stage)));
        }
        if self.left() > 0 && self.paused.is_empty() {
            output.note("  go on: tollway pipeline run");
        }
        Ok(exit)
    }
}
