//! The state of a demo: its settings, its counts, and the events so far.

use tollway::{Span, Timestamp};
use tollway_pipeline::run::progress::{Progress, StageProgress};

use super::alone::AloneProgress;
use super::documents::STAGES;
use super::pipeline::Redriven;
use super::quota::Quota;
use super::tally::Tally;
use super::worker::AfterRefusal;

/// The settings of a demo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) jobs: u64,
    pub(super) workers: u64,
    /// Also run the same workers without Tollway, which do this about refusals.
    pub(super) without: Option<AfterRefusal>,
}

/// What happened on the way.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// The vendor lowers its limit from this minute on, and Tollway is told.
    Lowered { limit: u64, from: u64 },
    /// The vendor has its first limit again, and Tollway is told.
    Restored { limit: u64 },
    /// A worker was killed.
    Killed { alone: bool, killed: Killed },
    /// Dead letters were corrected and redriven.
    Redriven(Redriven),
}

/// A killed worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Killed {
    pub(super) worker: u32,
    /// The number of the document it was calling for.
    pub(super) document: u64,
    pub(super) at: Timestamp,
}

/// The counts of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StageView {
    pub(super) done: u64,
    /// Jobs that can be claimed, now or after a pause.
    pub(super) ready: u64,
    pub(super) running: u64,
    pub(super) dead: u64,
}

impl From<&StageProgress> for StageView {
    fn from(stage: &StageProgress) -> Self {
        let StageProgress { done, ready, retrying, running, dead, .. } = *stage;
        Self { done, ready: ready + retrying, running, dead }
    }
}

/// One vendor and its workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub(super) tally: Tally,
    /// When no job was left but dead letters: until then the workers could use the whole quota.
    pub(super) busy_until: Option<Timestamp>,
    /// When the last job ended.
    pub(super) ended_at: Option<Timestamp>,
    pub(super) killed: Option<Killed>,
}

/// The workers without Tollway.
#[derive(Clone, Debug, Default)]
pub(super) struct AloneSide {
    pub(super) side: Side,
    pub(super) progress: AloneProgress,
}

/// The state of a demo.
#[derive(Clone, Debug)]
pub(super) struct DemoState {
    pub(super) plan: Plan,
    pub(super) quota: Quota,
    pub(super) started_at: Timestamp,
    pub(super) now: Timestamp,
    pub(super) interrupted: bool,
    pub(super) stages: [StageView; STAGES.len()],
    /// Attempts that failed.
    pub(super) failures: u64,
    pub(super) tollway: Side,
    pub(super) alone: Option<AloneSide>,
    pub(super) events: Vec<Event>,
}

impl DemoState {
    pub(super) fn new(plan: Plan, quota: Quota, started_at: Timestamp) -> Self {
        Self {
            plan,
            quota,
            started_at,
            now: started_at,
            interrupted: false,
            stages: [StageView::default(); STAGES.len()],
            failures: 0,
            tollway: Side::default(),
            alone: plan.without.map(|_| AloneSide::default()),
            events: Vec::new(),
        }
    }

    pub(super) fn observe(&mut self, progress: &Progress) {
        for (view, stage) in self.stages.iter_mut().zip(&progress.stages) {
            *view = stage.into();
        }
        self.failures = progress.stages.iter().map(|stage| stage.events.failures).sum();
    }

    /// Jobs that wait or run.
    pub(super) fn open_jobs(&self) -> u64 {
        self.stages.iter().map(|stage| stage.ready + stage.running).sum()
    }

    /// How much of the work under Tollway is done.
    pub(super) fn percent_done(&self) -> u64 {
        let done: u64 = self.stages.iter().map(|stage| stage.done).sum();
        done * 100 / (self.plan.jobs * STAGES.len() as u64)
    }

    /// The first full minute; workers start in the one before.
    pub(super) fn first_minute(&self) -> u64 {
        self.quota.minute_at(self.started_at) + 1
    }

    /// The displayed number of a minute: full minutes count from 1.
    pub(super) fn number_of(&self, minute: u64) -> Option<u64> {
        (minute + 1).checked_sub(self.first_minute()).filter(|number| *number > 0)
    }

    /// The minutes that passed between a start and an end of work; only those show how much of the quota was used.
    pub(super) fn whole_minutes(&self, side: &Side) -> std::ops::Range<u64> {
        self.first_minute()..self.quota.minute_at(side.busy_until.unwrap_or(self.now))
    }

    /// How long a side took, or has taken so far.
    pub(super) fn duration(&self, side: &Side) -> Span {
        side.ended_at.unwrap_or(self.now).since(self.started_at)
    }

    /// Whether all that was started has ended, or the demo was interrupted.
    pub(super) fn is_over(&self) -> bool {
        let alone_ended = self.alone.as_ref().is_none_or(|alone| alone.side.ended_at.is_some());
        self.interrupted || (self.tollway.ended_at.is_some() && alone_ended)
    }
}
