//! The contract between the pipeline and an engine that keeps its jobs.

pub(crate) mod administration;
pub(crate) mod checks;
mod counters;
pub(crate) mod error;
pub(crate) mod moving;
pub(crate) mod open;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod samples;
pub(crate) mod socket;
pub(crate) mod sqlite;
#[cfg(feature = "sqs")]
pub(crate) mod sqs;
mod stored;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tollway_core::{Name, Span, Timestamp};

use self::administration::Administration;
use self::error::EngineError;
use crate::job::attempt::Attempt;
use crate::job::bounds::{KEY_BYTES_MAX, WORKER_BYTES_MAX};
use crate::job::cost::JobCost;
use crate::job::{Job, JobError, JobId, NewJob, check_data, check_visible};

/// An engine's answer: it comes after what it says is stored. Dropping it does not undo the call.
pub type EngineAnswer<T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send>>;

/// Keeps jobs, and hands each one to one worker at a time.
///
/// # The life of a job
///
/// ```text
/// enqueue -> ready | delayed | held -> claim -> running -> finish -> done      (outputs are jobs of the next stage)
///                ^                                  |-----> finish -> delayed   (another try, or rate-limited)
///                |---- redrive <- dead <-- finish --|-----> release -> ready    (given back)
///                                                   |-----> expired -> ready    (no worker answered in time)
/// ```
///
/// A job belongs to one stage, unless an operator moves it: [`Administration::move_to_stage`]. What it hands on are new jobs, whose keys come from its key, its stage and their
/// index: [`Claim::output_key`]. A key that was purged can be enqueued again while outputs of its first job are still
/// there. Their ids are lower than that of the new job, so they cannot be its outputs: then the new output's key also
/// names the job ([`Claim::output_key_again`]). If a job with a higher id has the key, the hand-off is an error: only a
/// caller, or a second hand-off of the same job, can have made it.
///
/// # The fence
///
/// Every claim raises the job's claim number by 1. Each later write names job, stage and number: a [`Claim`]. It changes
/// nothing if that claim is not the newest, or has ended: the answer is late ([`Finished::Late`]), counted, and not an
/// error. A claim ends when it is finished or released, when another worker takes the job over, and when an operator
/// cancels or edits the job. **Expiry alone does not end it**: a worker that answers late, but before any other took the
/// job, still finishes it.
///
/// # Committed once
///
/// `finish` with [`Conclusion::Done`] ends the claim, writes the one completion of the job, and enqueues every output, all
/// or nothing, if [`Capabilities::atomic_hand_off`] says so. A worker that got no answer repeats the call: it then gets
/// [`Finished::Repeated`].
///
/// # Order
///
/// A claim gets the ready jobs of its stage and cost: highest priority first, then the oldest, which has the lowest id. A
/// job that waited for a retry keeps its age, so that it does not queue behind a backlog of days. Delayed jobs that are
/// due, and running ones whose claim expired, become ready at the next `claim` or `peek` of their stage. A job that is
/// claimed after its claim expired counts one crash, with evidence.
///
/// # What is counted
///
/// The engine counts failures, crashes and rate-limited attempts, and keeps evidence of each, at most
/// [`EVIDENCE_MAX`](crate::bounds::EVIDENCE_MAX) a job. It knows no number of tries: the worker reads the counts of the
/// claimed job, and concludes with [`Conclusion::Again`] or [`Conclusion::Dead`].
///
/// # Groups
///
/// A stage can wait for groups ([`StageSettings::after`](crate::StageSettings)): a job with a group is held while any job of
/// its group is in one of those stages and has not left it. Dead letters have not left. The engine looks when the job
/// arrives, and whenever the last job of the group leaves; a job that was released once is not held again.
///
/// # Time
///
/// Every call brings its time. Processes that share an engine must have clocks that agree far better than their visibility
/// timeout. An engine may know a later time, because the date of its machine was set back: [`Engine::time`] says it, and
/// callers that wait for a time of the engine go by it.
///
/// # Durability
///
/// An answer comes after its change is durable. Claims and renewals are the exception: they need only survive the death of
/// the process, not that of the machine, since a claim that is lost with its machine has no worker any more.
///
/// # A wrong engine, and a right one
///
/// Wrong: insert the outputs, then mark the job as done. A crash in between hands them on twice. Wrong, too: check the
/// claim number, then write in another statement. Right: one transaction, whose first statement changes the job
/// `WHERE id = ? AND claim_number = ? AND claim is open`, and which goes on only if that changed a row.
///
/// Run the module `conformance` (a feature) on your engine.
pub trait Engine: Administration {
    /// What this engine can promise.
    fn capabilities(&self) -> Capabilities;

    /// The engine's time for a caller whose clock shows `now`.
    fn time(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// Enqueues at most [`BATCH_MAX`](crate::bounds::BATCH_MAX) jobs, all or none, and answers for each, in order. A key
    /// that its stage knows already changes nothing, whatever the state of that job: it is a duplicate, or its job was
    /// cancelled. Only with [`NewJob::again`] is the key of a cancelled job a new job; the cancelled one is forgotten then.
    fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>>;

    /// Says what the next job of a stage costs, and otherwise when to look again. Makes due jobs ready.
    fn peek(&self, stage: &Name, now: Timestamp) -> EngineAnswer<Peek>;

    /// Claims ready jobs. Fewer than asked for, or none, is no error. A paused stage has none.
    fn claim(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>>;

    /// Lets claims expire this long from now, also those that expired but were not taken over. Answers for each whether it
    /// is still the newest: if not, stop working on that job.
    fn renew(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>>;

    /// Ends a claim with its conclusion.
    fn finish(&self, claim: Claim, conclusion: Conclusion, now: Timestamp) -> EngineAnswer<Finished>;

    /// Gives claims back: their jobs are ready again, and no try is used. Answers for each whether it was the newest.
    fn release(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>>;

    /// Makes the open claims of a worker expire now, because its process is known to be dead; `None`: of every worker.
    /// Answers how many. The next claims count crashes.
    fn abandon(&self, worker: Option<&str>, now: Timestamp) -> EngineAnswer<u64>;

    /// Says that `process` works under this worker's name, and answers with another process that does, too. Called every few
    /// seconds. An earlier process that died is none: a restarted worker works at once, and a second one is found a call later.
    ///
    /// Engines of one process know no other.
    fn claim_name(&self, worker: &str, process: &str) -> EngineAnswer<Option<String>> {
        let _ = (worker, process);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Does what keeps the engine quick and small, such as writing a log back. Called every minute, in the background.
    fn tidy(&self) -> EngineAnswer<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Completes what is still to be sent, and gives back what no worker has. Called before a process ends.
    fn flush(&self) -> EngineAnswer<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Changes whenever a job may have become ready by a call through this value. Only a hint: time makes jobs ready, too,
    /// and so do other processes.
    fn hints(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}

/// What an engine can promise. `run` says at the start what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// A completion and its outputs are stored together or not at all. Without it, outputs may come twice after a crash.
    pub atomic_hand_off: bool,
    /// Counts are exact at any time, and not estimates.
    pub exact_counts: bool,
    /// A job is never handed to a worker again after it was done. Without it, that holds while the engine remembers the job.
    pub delivers_once: bool,
    /// A claim can ask for one cost. Without it, `peek` and `claim` know one cost for the whole stage.
    pub claim_by_cost: bool,
    /// Jobs are claimed by priority and age.
    pub ordered: bool,
    /// Jobs that wait or are dead can be listed, edited and changed by filter.
    pub inspectable: bool,
    /// Stages can wait for groups.
    pub groups: bool,
    /// The longest delay of a job; none: any.
    pub delay_max: Option<Span>,
    /// How long a job is kept at most; none: until it is purged.
    pub retention_max: Option<Span>,
    /// The largest data of a job.
    pub job_bytes_max: usize,
}

/// What became of a job that was to be enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Enqueued {
    /// It is a new job.
    New(JobId),
    /// The stage knew the key: this is its job, unchanged.
    Duplicate(JobId),
    /// The stage knew the key, and an operator cancelled or dropped its job, which is unchanged.
    Cancelled(JobId),
}

impl Enqueued {
    /// As [`import`](Administration::import) answers: a job that was cancelled is one that is there.
    #[cfg(feature = "postgres")]
    pub(crate) fn of_import(self) -> Self {
        match self {
            Self::Cancelled(id) => Self::Duplicate(id),
            other => other,
        }
    }

    /// The job that had the key already. None: it is a new one.
    pub fn known(self) -> Option<JobId> {
        match self {
            Self::New(_) => None,
            Self::Duplicate(id) | Self::Cancelled(id) => Some(id),
        }
    }
}

/// The next job of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peek {
    /// The cost of the best ready job. None: no job is ready.
    pub cost: Option<JobCost>,
    /// When the next delayed job is due, or the next claim expires: look again then.
    pub next_at: Option<Timestamp>,
    /// The stage is paused: no job will be claimed.
    pub paused: bool,
    /// About how many jobs one call can claim, if the engine knows without reading the counts.
    pub ready: Option<u64>,
}

/// Which jobs to claim, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    pub(crate) stage: Name,
    pub(crate) worker: String,
    pub(crate) visibility: Span,
    pub(crate) cost: Option<JobCost>,
    pub(crate) count: usize,
}

impl ClaimRequest {
    /// One job of any cost, whose claim expires after `visibility` unless it is renewed. The worker's name is kept as
    /// evidence, cut at [`WORKER_BYTES_MAX`].
    pub fn new(stage: &Name, worker: &str, visibility: Span) -> Self {
        let worker = worker[..worker.floor_char_boundary(WORKER_BYTES_MAX)].replace('\0', "\u{fffd}");
        Self { stage: stage.clone(), worker, visibility, cost: None, count: 1 }
    }

    /// Only jobs of this cost.
    pub fn cost(self, cost: JobCost) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Up to this many jobs.
    pub fn count(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

/// A claim of a job: what every later write names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The job.
    pub job: JobId,
    /// Its stage.
    pub stage: Name,
    /// The number of the claim: 1 for the first.
    pub number: u64,
}

impl Claim {
    /// The key of an output of the job with this key: unique while the job is kept, because its key is unique in its stage.
    pub fn output_key(&self, key: &str, index: usize) -> String {
        format!("{key}>{}.{index}", self.stage.as_str())
    }

    /// The key of an output in place of one that an older job has. No other job makes it: ids are not used again.
    pub fn output_key_again(&self, taken: &str) -> String {
        format!("{taken}@{}", self.job)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim {} of job {} in stage {}", self.number, self.job, self.stage.as_str())
    }
}

/// A job, and the claim on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Names the claim in later writes.
    pub claim: Claim,
    /// The job, with its counts so far.
    pub job: Job,
    /// When the claim expires.
    pub expires_at: Timestamp,
}

/// How a claim ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conclusion {
    /// The job is done. At most [`OUTPUTS_MAX`](crate::bounds::OUTPUTS_MAX) outputs become jobs.
    Done {
        /// What is handed on: nothing, one job or many.
        outputs: Vec<Output>,
        /// JSON for `results`, kept until the job is purged.
        result: Option<String>,
    },
    /// The job is tried again at this time.
    Again {
        /// When.
        at: Timestamp,
        /// What happened. Its cause says what is counted.
        attempt: Attempt,
    },
    /// The job is a dead letter.
    Dead {
        /// What happened. Its cause is counted, too.
        attempt: Attempt,
    },
}

impl Conclusion {
    /// How many bytes it brings.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Done { outputs, result } => {
                let data: usize = outputs.iter().map(|output| output.data.len()).sum();
                data + result.as_ref().map_or(0, String::len)
            }
            Self::Again { attempt, .. } | Self::Dead { attempt } => {
                attempt.error().len() + attempt.details().len()
            }
        }
    }
}

/// What a finished job hands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    pub(crate) stage: Name,
    pub(crate) data: String,
    pub(crate) cost: JobCost,
    pub(crate) group: Option<String>,
    pub(crate) join: Option<String>,
}

impl Output {
    /// A job for this stage with this JSON. It inherits group and priority.
    pub fn new(stage: &Name, data: &str) -> Result<Self, JobError> {
        check_data(data)?;
        Ok(Self {
            stage: stage.clone(),
            data: data.to_owned(),
            cost: JobCost::OF_STAGE,
            group: None,
            join: None,
        })
    }

    /// The same with a cost of its own.
    pub fn cost(self, cost: JobCost) -> Self {
        Self { cost, ..self }
    }

    /// The same in this group, not in the group of the finished job.
    pub fn group(self, group: &str) -> Result<Self, JobError> {
        check_visible("the group", group, crate::bounds::GROUP_BYTES_MAX)?;
        Ok(Self { group: Some(group.to_owned()), ..self })
    }

    /// The same under this key, which other jobs may hand on as well: the first makes the job, the others join it. With
    /// a stage that waits for the group, this is how many chunks end in one upload.
    pub fn join(self, key: &str) -> Result<Self, JobError> {
        check_visible("the key", key, KEY_BYTES_MAX)?;
        Ok(Self { join: Some(key.to_owned()), ..self })
    }
}

impl Output {
    /// Checks what came from another process.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        self.join.as_ref().map_or(Ok(()), |key| check_visible("the key", key, KEY_BYTES_MAX))?;
        let bound = crate::bounds::GROUP_BYTES_MAX;
        self.group.as_ref().map_or(Ok(()), |group| check_visible("the group", group, bound))?;
        check_data(&self.data)
    }
}

/// What became of a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finished {
    /// It is stored.
    Committed {
        /// How many jobs were enqueued.
        outputs: usize,
        /// How many outputs joined a job that was there.
        joined: usize,
    },
    /// This claim was concluded before, by the same call whose answer was lost. Nothing has changed.
    Repeated,
    /// The claim is not the newest, or has ended. Nothing has changed, and the late answer is counted.
    Late,
}
