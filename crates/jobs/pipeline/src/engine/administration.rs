//! What operators see and change, while the pipeline runs.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};

use super::checks::refuse;
use super::error::EngineError;
use super::moving::MovedJob;
use super::{EngineAnswer, Enqueued};
use crate::job::attempt::Evidence;
use crate::job::cost::JobCost;
use crate::job::{Job, JobError, JobId, State, check_data};
use crate::run::RunnerView;

/// The part of an [`Engine`](crate::Engine) for operators: counting, listing, changing, purging.
///
/// Reads do not delay workers. Changes by filter go in steps of at most [`PAGE_MAX`](crate::bounds::PAGE_MAX) jobs, so that
/// workers get their turn between them; the caller repeats the step from where it ended, as slowly as it likes.
pub trait Administration: Send + Sync + 'static {
    /// Every stage with its counts. Cheap with any number of jobs: engines keep counters and do not count rows.
    fn counts(&self) -> EngineAnswer<Vec<StageCounts>>;

    /// The same at one moment, at which no held job was about to be released: only these say that nothing is left to do. None:
    /// jobs have changed meanwhile, so ask again. It may read every held job.
    ///
    /// Engines whose counts and releases belong to the transactions that change jobs answer with [`counts`](Self::counts).
    fn settled_counts(&self, now: Timestamp) -> EngineAnswer<Option<Vec<StageCounts>>> {
        let _ = now;
        let counts = self.counts();
        Box::pin(async move { counts.await.map(Some) })
    }

    /// The counts for the jobs of one group that are not purged, without events.
    fn group_counts(&self, group: &str) -> EngineAnswer<Vec<StageCounts>>;

    /// Jobs that match, in the order of their ids, after the given id; at most `limit`.
    fn scan(&self, filter: Filter, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<Job>>;

    /// How many jobs match: what a change would affect. It may read every job.
    fn matching(&self, filter: Filter) -> EngineAnswer<u64>;

    /// The evidence of a job's attempts, the oldest first.
    fn evidence(&self, job: JobId) -> EngineAnswer<Vec<Evidence>>;

    /// What the done jobs of a stage resulted in, in the order of their ids.
    fn results(&self, stage: &Name, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<JobResult>>;

    /// Changes one job that is not running. Ends an expired claim that was not taken over.
    fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> EngineAnswer<Edited>;

    /// Changes the jobs that match the filter and that the change applies to, after the given id; at most `limit`.
    fn change(
        &self,
        filter: Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Changed>;

    /// Moves waiting and dead jobs of a stage to another stage of this engine: the first after the given id, at most `limit`.
    /// They keep key, group, priority, cost, delay, used tries and evidence, but may get another number. A job with a group is
    /// held if the new stage says so. A key that the new stage knows already stays where it is, and is answered. Each job
    /// moves in one step: no process finds it in both stages or in none.
    fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<StageMove> {
        let _ = (from, to, after, limit, now);
        refuse(EngineError::unsupported("this engine", "move jobs to another stage"))
    }

    /// What the process knows that runs this pipeline, beside its jobs. None: this engine cannot ask it, or no process runs it.
    fn runner_view(&self) -> EngineAnswer<Option<RunnerView>> {
        Box::pin(async { Ok(None) })
    }

    /// Every stage with its settings.
    fn stages(&self) -> EngineAnswer<Vec<StageSettings>>;

    /// Changes a stage's settings, for every process at once. A stage that no job has entered is made.
    fn set_stage(&self, stage: &Name, change: StageChange, now: Timestamp) -> EngineAnswer<()>;

    /// Forgets at most `limit` done and cancelled jobs of a stage that have not changed since `before`, with their results,
    /// evidence and keys. Answers how many. Dead letters stay.
    fn purge(&self, stage: &Name, before: Timestamp, limit: usize) -> EngineAnswer<u64>;

    /// Keeps the counts of this minute, unless they are kept already: rates and an estimated end survive restarts. Of old
    /// samples, one an hour stays ([`SAMPLES_RECENT`]), and none for longer than [`SAMPLES_KEPT`].
    fn record(&self, now: Timestamp) -> EngineAnswer<()>;

    /// The samples since then, the oldest first.
    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>>;

    /// Takes waiting and dead jobs out of this engine, to move them to the engine `to`: the first that match after the given
    /// id, at most `limit`. They are cancelled, with a mark in place of their error ([`moving_to`](crate::moving_to)), and
    /// answered as they were. A move that was killed finds them by that mark.
    fn withdraw(
        &self,
        filter: Filter,
        to: &str,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Page<Job>> {
        let _ = (filter, to, after, limit, now);
        refuse(EngineError::unsupported("this engine", "move jobs to another one"))
    }

    /// Marks withdrawn jobs as jobs that the engine `to` has. Answers how many were not marked so before.
    fn confirm_moved(&self, jobs: Vec<JobId>, to: &str) -> EngineAnswer<u64> {
        let _ = (jobs, to);
        refuse(EngineError::unsupported("this engine", "move jobs to another one"))
    }

    /// Enqueues jobs of another engine as they were there, with the tries they have used and their evidence; dead letters
    /// stay dead. All or none, and a key that its stage knows already is a duplicate, as with
    /// [`enqueue`](crate::Engine::enqueue), unless its job had moved away: that one is back, under its old number. A job with a
    /// group is held if a stage here says so, whatever it was there.
    fn import(&self, jobs: Vec<MovedJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        let _ = (jobs, now);
        refuse(EngineError::unsupported("this engine", "take jobs of another one"))
    }

    /// Copies all jobs as of now to a file, while workers go on. The file must not exist; it appears when it is complete.
    /// Engines of a database server leave that to the server.
    fn backup(&self, target: &Path) -> EngineAnswer<()> {
        let _ = target;
        refuse(EngineError::unsupported(
            "this engine",
            "copy its jobs to a file: use the backup of its server",
        ))
    }
}

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

/// What became of an edit.
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

/// What became of one step of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// How many jobs were changed.
    pub jobs: u64,
    /// The last job changed, if there may be more: go on after it.
    pub next: Option<JobId>,
}

/// What became of one step of a move to another stage.
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
