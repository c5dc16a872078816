//! Applies a change step by step, as fast as it may, until it is done or interrupted.

use std::sync::Arc;
use std::time::Duration;

use tollway::Span;
use tollway_pipeline::{Change, Engine, Filter, JobId, PipelineConfig, bounds};

use super::display::Display;
use super::rate::JobRate;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::pipeline::interrupt::Interrupt;
use crate::stopwatch::Stopwatch;

/// The shortest pause between two steps with a rate. Jobs that are due earlier wait for the next step.
const PAUSE_MIN: Span = Span::from_secs(1);

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
pub(in crate::pipeline) struct Stepped {
    pub(in crate::pipeline) changed: u64,
    /// A signal ended it.
    pub(in crate::pipeline) interrupted: Option<Exit>,
}

impl Steps<'_> {
    /// Changes the jobs in the order of their ids, each at most once: a job that dies again meanwhile is left alone.
    pub(super) async fn run(&self, engine: Arc<dyn Engine>) -> Result<Stepped, Failure> {
        let mut interrupt = Interrupt::listen()?;
        let mut display = Display::new(self.context, self.most, self.rate.is_some());
        let stopwatch = Stopwatch::start();
        let (mut engine, mut changed, mut after) = (Some(engine), 0, None);
        loop {
            let step = match engine.take() {
                Some(engine) => engine,
                None => self.config.engine.open_for_command(false).await?,
            };
            let due = self.due(stopwatch, changed);
            let done = self.step(&*step, due, after).await?;
            changed += done.jobs;
            after = done.next;
            display.show(changed);
            if after.is_none() || changed >= self.most {
                return Ok(Stepped { changed, interrupted: None });
            }
            let pause = self.pause(stopwatch, changed);
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
        let now = engine.time(self.context.now());
        Ok(engine.change(self.filter.clone(), self.change, after, limit, now).await?)
    }

    /// How many jobs may be changed now.
    fn due(&self, stopwatch: Stopwatch, changed: u64) -> u64 {
        let allowed = self.rate.map_or(u64::MAX, |rate| rate.allows(stopwatch.elapsed()));
        allowed.min(self.most).saturating_sub(changed).max(1)
    }

    fn pause(&self, stopwatch: Stopwatch, changed: u64) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let next: Duration = rate.next_after(changed).into();
        next.saturating_sub(stopwatch.elapsed().into()).max(PAUSE_MIN.into())
    }
}
