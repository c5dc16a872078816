//! What workers ask for and get: enqueued and claimed jobs.

use std::fmt;

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Span, Timestamp};

use crate::bounds::WORKER_BYTES_MAX;
use crate::{Job, JobCost, JobId};

/// The result of enqueueing a job.
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
    /// As [`import`](crate::Engine::import) answers: a job that was cancelled is one that is there.
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

    /// The stage of the jobs.
    pub fn stage(&self) -> &Name {
        &self.stage
    }

    /// The worker that gets them.
    pub fn worker(&self) -> &str {
        &self.worker
    }

    /// After how long their claims expire.
    pub fn visibility(&self) -> Span {
        self.visibility
    }

    /// The cost that the jobs must have; none: any.
    pub fn wanted_cost(&self) -> Option<&JobCost> {
        self.cost.as_ref()
    }

    /// How many jobs at most.
    pub fn jobs_max(&self) -> usize {
        self.count
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
