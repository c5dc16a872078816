//! What a run has done, at its end.

use serde_json::{Value, json};
use tollway::Span;
use tollway_pipeline::{Engine, EngineError, PipelineConfig, StageCounts, State};

use crate::failure::{Exit, Failure};
use crate::humanize::{self, count, counted};
use crate::output::{GOOD, Output, WARN};
use crate::stopwatch::Stopwatch;

/// What a run has done.
pub(super) struct Summary {
    pipeline: String,
    stages: Vec<StageSummary>,
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
    pub(super) async fn begin(config: &PipelineConfig, engine: &dyn Engine) -> Result<Self, EngineError> {
        let stopwatch = Stopwatch::start();
        let counts = engine.counts().await?;
        let stage = |name: &tollway::core::Name| {
            let found = counts.iter().find(|counts| counts.stage == *name).cloned();
            let before = found.unwrap_or_else(|| StageCounts::empty(name.clone()));
            StageSummary { after: before.clone(), before }
        };
        let stages = config.stages.iter().map(|config| stage(&config.name)).collect();
        let pipeline = config.name.to_string();
        Ok(Self { pipeline, stages, stopwatch, took: Span::ZERO, stopped: false, given_back: 0 })
    }

    /// Counts to here.
    pub(super) async fn end(
        &mut self,
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
        self.left() == 0
    }

    /// One sentence.
    pub(super) fn sentence(&self) -> String {
        let each = self.stages.iter().map(|stage| format!("{} {}", stage.before.stage, count(stage.done())));
        let each = each.collect::<Vec<_>>().join(", ");
        let end = match (self.left(), self.stopped) {
            (0, _) => "all jobs are done".to_owned(),
            (left, true) => format!("stopped, {} left", counted(left, "jobs")),
            (left, false) => format!("{} left", counted(left, "jobs")),
        };
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
        json!({
            "pipeline": self.pipeline,
            "done": self.is_done(),
            "stopped": self.stopped,
            "given_back": self.given_back,
            "seconds": self.took.as_micros() as f64 / 1e6,
            "stages": self.stages.iter().map(stage).collect::<Vec<_>>(),
        })
    }

    /// Prints it, and says how to exit.
    pub(super) fn print(&self, output: &Output) -> Result<Exit, Failure> {
        let exit = match (self.left(), self.dead()) {
            (1.., _) if self.stopped => Exit::DENIED,
            (_, 1..) => Exit::DATA,
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
        if self.left() > 0 {
            output.note("  go on: tollway pipeline run");
        }
        Ok(exit)
    }
}
