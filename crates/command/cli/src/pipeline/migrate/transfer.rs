//! Moves jobs in batches: out of one engine, into the other, confirmed.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tollway::Span;
use tollway::core::{Name, Retry};
use tollway_pipeline::{
    EngineAnswer, EngineError, Enqueued, Filter, Job, JobId, MovedJob, PipelineConfig, StageCounts, State,
    bounds, moving_to,
};

use super::engines::{Engines, moving_filter};
use super::report::{End, MigrationReport};
use crate::context::Context;
use crate::failure::Failure;
use crate::pipeline::interrupt::Interrupt;
use crate::stopwatch::Stopwatch;

/// States of jobs that can be moved. A held job becomes ready when the rest of its group has moved.
const MOVABLE: [State; 3] = [State::Ready, State::Delayed, State::Dead];

/// How often running jobs are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often a call is repeated after a failure that may pass. Marks and keys make that harmless.
const TRIES: u32 = 10;

/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// A move.
pub(super) struct Transfer<'a> {
    engines: &'a Engines,
    context: &'a Context,
    /// If stages wait for groups, jobs that others wait for move before those. Otherwise the last stage is the first: an
    /// output that is older than a job of the same key stays older.
    stages: Vec<Name>,
    bar: ProgressBar,
    report: MigrationReport,
}

impl<'a> Transfer<'a> {
    pub(super) async fn new(
        engines: &'a Engines,
        config: &PipelineConfig,
        context: &'a Context,
    ) -> Result<Self, Failure> {
        let counts = engines.source.counts().await?;
        let mut stages: Vec<Name> = config.stages.iter().map(|stage| stage.name.clone()).collect();
        let others = counts.iter().map(|counts| &counts.stage).filter(|name| !stages.contains(name));
        let others: Vec<Name> = others.cloned().collect();
        stages.extend(others);
        if config.stages.iter().all(|stage| stage.after.is_empty()) {
            stages.reverse();
        }
        let total = counts.iter().map(left).sum();
        let bar = if context.output().is_watched() { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let style =
            ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} moved, {msg}{eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let report = MigrationReport::new(&engines.target_name);
        Ok(Self { engines, context, stages, bar, report })
    }

    /// What was moved so far.
    pub(super) fn report(&self) -> MigrationReport {
        self.bar.finish_and_clear();
        self.report.clone().ended()
    }

    /// Moves until no job is left, or only running ones are, for too long.
    pub(super) async fn run(&mut self, timeout: Span, interrupt: &mut Interrupt) -> Result<End, Failure> {
        if let Some(end) = self.recover(interrupt).await? {
            return Ok(end);
        }
        let mut idle = Stopwatch::start();
        loop {
            let counts = self.look().await?;
            let movable = |counts: &&StageCounts| MOVABLE.iter().any(|state| counts.of(*state) > 0);
            if counts.iter().any(|counts| movable(&counts)) {
                if let Some(end) = self.pass(&counts, interrupt).await? {
                    return Ok(end);
                }
                idle = Stopwatch::start();
                continue;
            }
            let running: u64 = counts.iter().map(|counts| counts.of(State::Running)).sum();
            let held: u64 = counts.iter().map(|counts| counts.of(State::Held)).sum();
            if running + held == 0 {
                return Ok(End::Complete);
            }
            self.bar.set_message(format!("waiting for {running} running, "));
            if idle.elapsed() >= timeout {
                return Ok(End::TimedOut { running, held });
            }
            if let Some(exit) = interrupt.sleep(LOOK_EVERY).await {
                return Ok(End::Interrupted(exit));
            }
        }
    }

    /// Counts jobs, after claims that expired have ended.
    async fn look(&self) -> Result<Vec<StageCounts>, Failure> {
        let source = &self.engines.source;
        for stage in &self.stages {
            repeated(|| source.peek(stage, source.time(self.context.now()))).await?;
        }
        Ok(repeated(|| source.counts()).await?)
    }

    /// Moves every job that is movable now.
    async fn pass(
        &mut self,
        counts: &[StageCounts],
        interrupt: &mut Interrupt,
    ) -> Result<Option<End>, Failure> {
        for stage in self.stages.clone() {
            for state in MOVABLE {
                if counts.iter().all(|counts| counts.stage != stage || counts.of(state) == 0) {
                    continue;
                }
                let filter = Filter { stage: Some(stage.clone()), state: Some(state), ..Filter::default() };
                let mut after = None;
                loop {
                    let withdrawn = self.withdraw(&filter, after).await?;
                    after = withdrawn.next;
                    self.move_on(withdrawn.items).await?;
                    if let Some(exit) = interrupt.came().await {
                        return Ok(Some(End::Interrupted(exit)));
                    }
                    if after.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(None)
    }

    async fn withdraw(
        &self,
        filter: &Filter,
        after: Option<JobId>,
    ) -> Result<tollway_pipeline::Page<Job>, EngineError> {
        let Engines { source, target_name, .. } = self.engines;
        // Not repeated after an unclear failure: the jobs of a lost answer are found by their mark.
        let now = source.time(self.context.now());
        source.withdraw(filter.clone(), target_name, after, bounds::PAGE_MAX, now).await
    }

    /// Moves on what an interrupted move has withdrawn.
    async fn recover(&mut self, interrupt: &mut Interrupt) -> Result<Option<End>, Failure> {
        let mut after = None;
        loop {
            let source = &self.engines.source;
            let page = repeated(|| source.scan(moving_filter(), after, bounds::PAGE_MAX)).await?;
            after = page.next;
            let mut jobs = Vec::with_capacity(page.items.len());
            for job in page.items {
                jobs.extend(self.as_it_was(job).await?);
            }
            self.report.recovered += jobs.len() as u64;
            self.move_on(jobs).await?;
            if let Some(exit) = interrupt.came().await {
                return Ok(Some(End::Interrupted(exit)));
            }
            if after.is_none() {
                return Ok(None);
            }
        }
    }

    /// A withdrawn job as it was: its mark says in which state, and its evidence has its error.
    async fn as_it_was(&self, job: Job) -> Result<Option<Job>, Failure> {
        let Some((_, state)) = moving_to(&job.error) else { return Ok(None) };
        let evidence = repeated(|| self.engines.source.evidence(job.id)).await?;
        let error = evidence.last().map(|last| last.attempt.error().to_owned()).unwrap_or_default();
        Ok(Some(Job { state, error, ..job }))
    }

    /// Imports withdrawn jobs, and confirms it.
    async fn move_on(&mut self, jobs: Vec<Job>) -> Result<(), Failure> {
        let Engines { source, target, target_name, .. } = self.engines;
        let mut rest = jobs.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while bytes < bounds::BATCH_BYTES_MAX / 2
                && let Some(job) = rest.next()
            {
                let evidence = match attempts(&job) {
                    0 => Vec::new(),
                    _ => repeated(|| source.evidence(job.id)).await?,
                };
                let moved = MovedJob { job, evidence };
                bytes += moved.bytes();
                batch.push(moved);
            }
            let imported = repeated(|| target.import(batch.clone(), target.time(self.context.now()))).await?;
            let ids: Vec<JobId> = batch.iter().map(|moved| moved.job.id).collect();
            repeated(|| source.confirm_moved(ids.clone(), target_name)).await?;
            for (moved, enqueued) in batch.iter().zip(&imported) {
                let new = matches!(enqueued, Enqueued::New(_));
                self.report.count(&moved.job.stage, moved.job.state, new);
            }
            self.bar.inc(batch.len() as u64);
        }
        Ok(())
    }
}

/// Attempts that may have left evidence.
fn attempts(job: &Job) -> u32 {
    job.failures + job.crashes + job.rate_limited + u32::from(!job.error.is_empty())
}

/// Jobs that have not left.
pub(super) fn left(counts: &StageCounts) -> u64 {
    State::ALL.iter().filter(|state| !state.has_left()).map(|state| counts.of(*state)).sum()
}

/// Repeats a call after failures that may pass.
async fn repeated<T>(call: impl Fn() -> EngineAnswer<T>) -> Result<T, EngineError> {
    let mut answer = call().await;
    for _ in 1..TRIES {
        match &answer {
            Err(error) if error.retry != Retry::Useless => {
                tracing::warn!(%error, "trying again");
                tokio::time::sleep(PAUSE).await;
                answer = call().await;
            }
            _ => break,
        }
    }
    answer
}
