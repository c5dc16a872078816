//! How a claim ends.

use serde::{Deserialize, Serialize};
use tollway_core::{Name, Timestamp};

use crate::bounds::{GROUP_BYTES_MAX, KEY_BYTES_MAX};
use crate::job::{check_data, check_visible};
use crate::{Attempt, JobCost, JobError, NewJob};

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
        check_visible("the group", group, GROUP_BYTES_MAX)?;
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
    /// The stage of the job that it becomes.
    pub fn stage(&self) -> &Name {
        &self.stage
    }

    /// Its JSON.
    pub fn data(&self) -> &str {
        &self.data
    }

    /// A cost of its own, or that of its stage.
    pub fn own_cost(&self) -> &JobCost {
        &self.cost
    }

    /// The key under which it joins others: [`join`](Self::join).
    pub fn joined_key(&self) -> Option<&str> {
        self.join.as_deref()
    }

    /// The job that it becomes: it inherits group and priority.
    pub fn job(&self, key: String, group: Option<&String>, priority: i16) -> NewJob {
        NewJob {
            stage: self.stage.clone(),
            key,
            group: self.group.as_ref().or(group).cloned(),
            data: self.data.clone(),
            priority,
            cost: self.cost.clone(),
            not_before: Timestamp::EPOCH,
            again: false,
        }
    }

    /// Checks what came from another process.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        self.join.as_ref().map_or(Ok(()), |key| check_visible("the key", key, KEY_BYTES_MAX))?;
        self.group.as_ref().map_or(Ok(()), |group| check_visible("the group", group, GROUP_BYTES_MAX))?;
        check_data(&self.data)
    }
}

/// The result of a conclusion.
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
