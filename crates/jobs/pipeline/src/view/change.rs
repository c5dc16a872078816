//! Changes of every job that matches, at a rate: what they would touch, and step by step.

use serde::Serialize;
use tollway_core::{Name, Span, Timestamp};

use super::JobRate;
use crate::bounds::PAGE_MAX;
use crate::{Administration, Change, EngineError, Filter, JobId, State};

/// The shortest pause between two steps with a rate. Jobs that are due earlier wait for the next step.
const PAUSE_MIN: Span = Span::from_secs(1);

/// A change of every job that matches: [`Change::Redrive`] tries dead letters again, [`Change::Cancel`] drops them.
#[derive(Clone, Debug)]
pub struct JobChange {
    /// Which jobs.
    pub filter: Filter,
    /// What is changed.
    pub change: Change,
    /// The most jobs, the oldest first; none: all.
    pub limit: Option<u64>,
    /// How fast; none: as fast as the engine allows.
    pub rate: Option<JobRate>,
}

/// What a change would touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Matched {
    /// How many jobs it applies to.
    pub matched: u64,
    /// How many of them are changed, as its limit says.
    pub most: u64,
    /// How many are in which state.
    pub states: Vec<(State, u64)>,
    /// Stages that are paused, and get jobs that are tried again.
    pub paused: Vec<Name>,
}

impl JobChange {
    /// What it would touch now.
    pub async fn matched(&self, engine: &dyn Administration) -> Result<Matched, EngineError> {
        let (filter, mut states) = (&self.filter, Vec::new());
        for state in State::ALL {
            if self.change.applies_to(state) && filter.state.is_none_or(|only| only == state) {
                let jobs = engine.matching(Filter { state: Some(state), ..filter.clone() }).await?;
                states.extend((jobs > 0).then_some((state, jobs)));
            }
        }
        let matched: u64 = states.iter().map(|(_, jobs)| jobs).sum();
        let most = matched.min(self.limit.unwrap_or(u64::MAX));
        Ok(Matched { matched, most, states, paused: self.paused_stages(engine).await? })
    }

    async fn paused_stages(&self, engine: &dyn Administration) -> Result<Vec<Name>, EngineError> {
        let (filter, mut paused) = (&self.filter, Vec::new());
        if self.change != Change::Redrive {
            return Ok(paused);
        }
        for settings in engine.stages().await?.into_iter().filter(|settings| settings.paused) {
            let stage = settings.stage;
            let fits = filter.stage.as_ref().is_none_or(|only| *only == stage);
            let there = Filter { stage: Some(stage.clone()), state: Some(State::Dead), ..filter.clone() };
            if fits && engine.matching(there).await? > 0 {
                paused.push(stage);
            }
        }
        Ok(paused)
    }

    /// Begins to change at most so many jobs.
    pub fn steps(self, most: u64) -> ChangeSteps {
        ChangeSteps { change: self, most, changed: 0, after: None }
    }
}

/// A change on its way, in the order of the jobs' ids, each at most once: a job that dies again meanwhile is left alone.
#[derive(Debug)]
pub struct ChangeSteps {
    change: JobChange,
    most: u64,
    changed: u64,
    after: Option<JobId>,
}

impl ChangeSteps {
    /// How many jobs were changed so far.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Changes as many jobs as may be changed `elapsed` after the beginning. True: there may be more, after a
    /// [`pause`](Self::pause).
    pub async fn step(
        &mut self,
        engine: &dyn Administration,
        elapsed: Span,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let JobChange { filter, change, rate, .. } = &self.change;
        let allowed = rate.as_ref().map_or(u64::MAX, |rate| rate.allows(elapsed));
        let due = allowed.min(self.most).saturating_sub(self.changed).max(1);
        let limit = usize::try_from(due).unwrap_or(usize::MAX).min(PAGE_MAX);
        let done = engine.change(filter.clone(), *change, self.after, limit, now).await?;
        self.changed += done.jobs;
        self.after = done.next;
        Ok(self.after.is_some() && self.changed < self.most)
    }

    /// How long to wait with the next step, `elapsed` after the beginning. Zero without a rate.
    pub fn pause(&self, elapsed: Span) -> Span {
        let Some(rate) = &self.change.rate else { return Span::ZERO };
        let next = rate.next_after(self.changed).as_micros();
        Span::from_micros(next.saturating_sub(elapsed.as_micros())).max(PAUSE_MIN)
    }
}
