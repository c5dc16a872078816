//! What operators see and change, while the pipeline runs.

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};

use crate::job::check_data;
use crate::{JobCost, JobError, JobId, State};

/// How long a sample of every minute is kept.
pub const SAMPLES_RECENT: Span = Span::from_mins(60);

/// How long a sample of every hour is kept.
pub const SAMPLES_KEPT: Span = Span::from_days(30);

/// The counts at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When they were read.
    pub at: Timestamp,
    /// Every stage.
    pub stages: Vec<StageCounts>,
}

/// The counts of one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageCounts {
    /// The stage.
    pub stage: Name,
    /// Jobs now, in the order of [`State::ALL`].
    pub jobs: [u64; 7],
    /// Events since the engine was made, also of jobs that are purged.
    pub events: Events,
}

impl StageCounts {
    /// A stage without jobs.
    pub fn empty(stage: Name) -> Self {
        Self { stage, jobs: [0; 7], events: Events::default() }
    }

    /// How many jobs are in this state.
    pub fn of(&self, state: State) -> u64 {
        self.jobs[state as usize]
    }

    /// How many jobs have not left, dead letters included.
    pub fn open(&self) -> u64 {
        State::ALL.into_iter().filter(|state| !state.has_left()).map(|state| self.of(state)).sum()
    }
}

/// What happened in a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Jobs that entered.
    pub enqueued: u64,
    /// Claims.
    pub claimed: u64,
    /// Jobs done.
    pub completed: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Crashed attempts.
    pub crashes: u64,
    /// Attempts that the vendor refused for its rate.
    pub rate_limited: u64,
    /// Late answers.
    pub late: u64,
    /// Messages that came twice, and were recognised: of engines that promise delivery at least once.
    #[serde(default)]
    pub duplicates: u64,
}

/// Which jobs. The empty filter matches every job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// This job.
    pub job: Option<JobId>,
    /// Jobs of this stage.
    pub stage: Option<Name>,
    /// Jobs in this state.
    pub state: Option<State>,
    /// Jobs of this group.
    pub group: Option<String>,
    /// Jobs with this key, in any stage.
    pub key: Option<String>,
    /// Jobs whose last error contains this text, in upper or lower case of ASCII.
    pub error: Option<String>,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The last id looked at, if there may be more: ask for the items after it.
    pub next: Option<JobId>,
}

/// What a done job resulted in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// The job.
    pub job: JobId,
    /// Its key.
    pub key: String,
    /// Its group.
    pub group: Option<String>,
    /// The number of the claim that finished it.
    pub number: u64,
    /// When it finished.
    pub finished_at: Timestamp,
    /// How many outputs it handed on, those that joined another job included.
    pub outputs: u64,
    /// The result its handler gave: JSON.
    pub result: Option<String>,
}

/// A change of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    pub(crate) data: Option<String>,
    pub(crate) cost: Option<JobCost>,
    pub(crate) priority: Option<i16>,
}

impl Edit {
    /// Replaces the data.
    pub fn data(self, data: &str) -> Result<Self, JobError> {
        check_data(data)?;
        Ok(Self { data: Some(data.to_owned()), ..self })
    }

    /// The data in place of the job's; none: it stays.
    pub fn new_data(&self) -> Option<&str> {
        self.data.as_deref()
    }

    /// The same of the cost.
    pub fn new_cost(&self) -> Option<&JobCost> {
        self.cost.as_ref()
    }

    /// The same of the priority.
    pub fn new_priority(&self) -> Option<i16> {
        self.priority
    }

    /// Checks what came from another process.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        self.data.as_ref().map_or(Ok(()), |data| check_data(data))
    }

    /// Replaces the cost.
    pub fn cost(self, cost: JobCost) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Replaces the priority.
    pub fn priority(self, priority: i16) -> Self {
        Self { priority: Some(priority), ..self }
    }
}

/// The result of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edited {
    /// It is stored.
    Changed,
    /// The job is in a state in which it cannot be edited: running, done or cancelled.
    Refused(State),
    /// There is no such job.
    Missing,
}

/// A change of every job that matches a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Dead letters are tried again, with no tries used. Applies to dead jobs.
    Redrive,
    /// Jobs leave their stage without outputs. Applies to every job that has not left, also to running ones, whose answers
    /// will be late. Drops dead letters.
    Cancel,
    /// Jobs get this priority. Applies to every job that has not left.
    Reprioritise(i16),
}

impl Change {
    /// Whether it applies to a job in this state.
    pub fn applies_to(self, state: State) -> bool {
        match self {
            Self::Redrive => state == State::Dead,
            Self::Cancel | Self::Reprioritise(_) => !state.has_left(),
        }
    }
}

/// The result of one step of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// How many jobs were changed.
    pub jobs: u64,
    /// The last job changed, if there may be more: go on after it.
    pub next: Option<JobId>,
}

/// The result of one step of a move to another stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageMove {
    /// How many jobs were moved.
    pub jobs: u64,
    /// Keys that the new stage knows already: their jobs stay where they are.
    pub known: Vec<String>,
    /// The last job looked at, if there may be more: go on after it.
    pub next: Option<JobId>,
}

/// How a stage is run. The engine applies `paused` and `after`; processes read `concurrency`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSettings {
    /// The stage.
    pub stage: Name,
    /// No job is claimed. Jobs still arrive, and claimed ones still finish.
    pub paused: bool,
    /// How many jobs may run at a time, in place of what the config says.
    pub concurrency: Option<u32>,
    /// The stages that a whole group must have left before its jobs here are ready.
    pub after: Vec<Name>,
}

/// A change of a stage's settings. What is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageChange {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Override the concurrency, or follow the config again.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Option<u32>>,
    /// Wait for groups in these stages. Jobs that are ready stay ready; held ones whose groups have left become ready.
    pub after: Option<Vec<Name>>,
}

/// A value that is there, also if it is null.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(from).map(Some)
}
