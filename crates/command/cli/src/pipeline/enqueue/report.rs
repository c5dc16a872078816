//! The outcome of the records.

use indicatif::ProgressBar;
use serde_json::json;
use tollway::Span;
use tollway::core::Name;
use tollway_pipeline::source::{RecordError, Skipped};
use tollway_pipeline::{EngineError, Enqueued};

use crate::failure::{Exit, Failure};
use crate::humanize::{self, count, counted};
use crate::output::{GOOD, Output, WARN};

/// How many bad lines are shown; the others are counted.
const SHOWN_MAX: u64 = 20;

/// Counts of records and jobs.
pub(super) struct EnqueueReport {
    stage: Name,
    new: u64,
    known: u64,
    /// Keys whose jobs were dropped or cancelled.
    cancelled: u64,
    bad: u64,
    pub(super) skipped: Skipped,
    /// The first bad lines, for JSON.
    errors: Vec<String>,
}

impl EnqueueReport {
    pub(super) fn new(stage: &Name) -> Self {
        Self {
            stage: stage.clone(),
            new: 0,
            known: 0,
            cancelled: 0,
            bad: 0,
            skipped: Skipped::default(),
            errors: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, enqueued: &[Enqueued]) {
        for outcome in enqueued {
            match outcome {
                Enqueued::New(_) => self.new += 1,
                Enqueued::Duplicate(_) => self.known += 1,
                Enqueued::Cancelled(_) => self.cancelled += 1,
            }
        }
    }

    /// Jobs of a dry run.
    pub(super) fn count_checked(&mut self, jobs: usize) {
        self.new += u64::try_from(jobs).unwrap_or(0);
    }

    /// A line that is no job.
    pub(super) fn bad_line(&mut self, input: &str, line: u64, error: &RecordError, bar: &ProgressBar) {
        self.bad += 1;
        if self.bad <= SHOWN_MAX {
            let text = format!("{input}, line {line}: {error}");
            bar.suspend(|| tracing::warn!("{text}"));
            self.errors.push(text);
        }
    }

    /// The command ends here, with what it has done so far.
    pub(super) fn failure(&self, error: EngineError) -> Failure {
        let stored = count(self.new + self.known + self.cancelled);
        Failure::from(error).advise(format!(
            "{stored} jobs are stored; run the same command again, it goes on where it stopped"
        ))
    }

    pub(super) fn print(&self, dry_run: bool, took: Span, output: &Output) -> Result<Exit, Failure> {
        let exit = if self.bad + self.cancelled > 0 { Exit::DATA } else { Exit::DONE };
        if output.is_json() {
            output.json(&json!({
                "stage": self.stage.as_str(), "dry_run": dry_run, "new": self.new, "known": self.known,
                "cancelled": self.cancelled,
                "bad": self.bad, "skipped": self.skipped.total(), "errors": self.errors,
                "seconds": took.as_micros() as f64 / 1e6,
            }))?;
            return Ok(exit);
        }
        let stage = &self.stage;
        let took = humanize::span(took);
        if dry_run {
            let jobs = counted(self.new, "jobs");
            output.line(format_args!("{GOOD}{jobs}{GOOD:#} for stage {stage}; nothing was enqueued"))?;
        } else {
            let jobs = counted(self.new, "new jobs");
            output.line(format_args!("{GOOD}{jobs}{GOOD:#} in stage {stage}, in {took}"))?;
        }
        if self.known > 0 {
            output.line(format_args!("{} were there already", count(self.known)))?;
        }
        if self.cancelled > 0 {
            let (were, them) = match self.cancelled {
                1 => ("was", "it a new job"),
                _ => ("were", "them new jobs"),
            };
            let cancelled = count(self.cancelled);
            output.line(format_args!(
                "{WARN}{cancelled} {were} dropped or cancelled{WARN:#}: add --again to make {them}"
            ))?;
        }
        if self.skipped.total() > 0 {
            output.line(format_args!("left out: {}", self.skipped))?;
        }
        if self.bad > 0 {
            let more = if self.bad > SHOWN_MAX {
                format!("; the first {SHOWN_MAX} are above")
            } else {
                String::new()
            };
            output.line(format_args!("{WARN}{} bad{WARN:#}{more}", counted(self.bad, "records")))?;
            output.note("  correct them and run the same command again: jobs that are there are left alone");
        }
        Ok(exit)
    }
}
