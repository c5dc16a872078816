//! Applies a change step by step, as fast as it may, until it is done or interrupted.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tollway::{Span, Timestamp};
use tollway_pipeline::{Change, Engine, Filter, JobId, PipelineConfig, bounds};

use super::rate::JobRate;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::count;
use crate::pipeline::interrupt::Interrupt;

/// The shortest pause between two steps with a rate. Jobs that are due earlier wait for the next step.
const PAUSE_MIN: Span = Span::from_secs(1);

/// How often a slow change prints a line where there is no terminal.
const LINE_EVERY: Span = Span::from_mins(1);

/// What is changed.
pub(super) struct Steps<'a> {
    pub(super) config: &'a PipelineConfig,
    pub(super) filter: Filter,
    pub(super) change: Change,
    /// How many jobs at most.
    pub(super) most: u64,
    pub(super) rate: Option<&'a JobRate>,
    pub(super) context: &'a Context,
}

/// How far it came.
pub(super) struct Stepped {
    pub(super) changed: u64,
    /// A signal ended it.
    pub(super) interrupted: Option<Exit>,
}

impl Steps<'_> {
    /// Changes the jobs in the order of their ids, each at most once: a job that dies again meanwhile is left alone.
    pub(super) async fn run(&self, engine: Arc<dyn Engine>) -> Result<Stepped, Failure> {
        let mut interrupt = Interrupt::listen()?;
        let mut display = Display::new(self);
        let begun_at = self.context.now();
        let (mut engine, mut changed, mut after) = (Some(engine), 0, None);
        loop {
            let step = match engine.take() {
                Some(engine) => engine,
                None => self.config.engine.open_for_command(false).await?,
            };
            let due = self.due(begun_at, changed);
            let done = self.step(&*step, due, after).await?;
            changed += done.jobs;
            after = done.next;
            display.show(changed, self.context.now());
            if after.is_none() || changed >= self.most {
                return Ok(Stepped { changed, interrupted: None });
            }
            let pause = self.pause(begun_at, changed);
            // While it waits, another process may run the pipeline, or another command may change it.
            if pause > Duration::ZERO {
                drop(step);
            } else {
                engine = Some(step);
            }
            if let Some(exit) = interrupt.sleep(pause).await {
                return Ok(Stepped { changed, interrupted: Some(exit) });
            }
        }
    }

    async fn step(
        &self,
        engine: &dyn Engine,
        due: u64,
        after: Option<JobId>,
    ) -> Result<tollway_pipeline::Changed, Failure> {
        let limit = usize::try_from(due).unwrap_or(usize::MAX).min(bounds::PAGE_MAX);
        Ok(engine.change(self.filter.clone(), self.change, after, limit, self.context.now()).await?)
    }

    /// How many jobs may be changed now.
    fn due(&self, begun_at: Timestamp, changed: u64) -> u64 {
        let allowed = self.rate.map_or(u64::MAX, |rate| rate.allows(self.context.now().since(begun_at)));
        allowed.min(self.most).saturating_sub(changed).max(1)
    }

    fn pause(&self, begun_at: Timestamp, changed: u64) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let next_at = begun_at.plus(rate.next_after(changed));
        next_at.since(self.context.now()).max(PAUSE_MIN).into()
    }
}

/// How far it is.
struct Display<'a> {
    context: &'a Context,
    bar: ProgressBar,
    most: u64,
    slow: bool,
    printed_at: Timestamp,
}

impl<'a> Display<'a> {
    fn new(steps: &Steps<'a>) -> Self {
        let watched = steps.context.output().is_watched();
        let bar = if watched { ProgressBar::new(steps.most) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let context = steps.context;
        Self { context, bar, most: steps.most, slow: steps.rate.is_some(), printed_at: context.now() }
    }

    fn show(&mut self, changed: u64, now: Timestamp) {
        self.bar.set_position(changed);
        if self.slow && self.bar.is_hidden() && now.since(self.printed_at) >= LINE_EVERY {
            self.printed_at = now;
            self.context.output().note(format_args!("{} of {}", count(changed), count(self.most)));
        }
    }
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
