//! Jobs that move from one engine to another.

use serde::{Deserialize, Serialize};

use super::checks::within;
use super::error::EngineError;
use crate::bounds::{
    BATCH_BYTES_MAX, BATCH_MAX, ERROR_BYTES_MAX, EVIDENCE_MAX, GROUP_BYTES_MAX, KEY_BYTES_MAX,
};
use crate::job::attempt::Evidence;
use crate::job::{Job, State, check_data, check_text};

/// How a mark begins while the other engine may not have the job yet, and how it goes on.
const MOVING: (&str, &str) = ("tollway migrate: moving to ", "; it was ");

/// How a mark begins when the other engine has the job. Such a job can come back. No handler's error begins so.
pub const MOVED_MARK: &str = "tollway migrate: moved to ";

/// The longest name of the other engine in a mark, which replaces an error.
const TARGET_BYTES_MAX: usize = ERROR_BYTES_MAX - 64;

/// A job with the evidence of its attempts, on its way to another engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedJob {
    /// The job as it was: ready, delayed, held or dead.
    pub job: Job,
    /// Its attempts, the oldest first.
    pub evidence: Vec<Evidence>,
}

impl MovedJob {
    /// How many bytes it counts for in a batch.
    pub fn bytes(&self) -> usize {
        let group = self.job.group.as_ref().map_or(0, String::len);
        let attempts =
            self.evidence.iter().map(|one| one.attempt.error().len() + one.attempt.details().len());
        self.job.key.len() + self.job.data.len() + group + attempts.sum::<usize>()
    }

    fn check(&self) -> Result<(), EngineError> {
        check_text("the key", &self.job.key, KEY_BYTES_MAX)?;
        self.job.group.as_ref().map_or(Ok(()), |group| check_text("the group", group, GROUP_BYTES_MAX))?;
        check_data(&self.job.data)?;
        within("attempts of a job", self.evidence.len(), EVIDENCE_MAX)?;
        match self.job.state {
            State::Ready | State::Delayed | State::Held | State::Dead => Ok(()),
            state => Err(EngineError::caller(format!("a job that is {state} cannot be imported"))),
        }
    }
}

/// Checks a call of `import`.
pub(super) fn check_import(jobs: &[MovedJob]) -> Result<(), EngineError> {
    within("jobs", jobs.len(), BATCH_MAX)?;
    jobs.iter().try_for_each(MovedJob::check)?;
    within("bytes", jobs.iter().map(MovedJob::bytes).sum(), BATCH_BYTES_MAX)
}

/// The mark of a job that was withdrawn, in place of its error.
pub fn moving_mark(to: &str, was: State) -> String {
    format!("{}{}{}{was}", MOVING.0, target(to), MOVING.1)
}

/// The mark of a job that the other engine has.
pub fn moved_mark(to: &str) -> String {
    format!("{MOVED_MARK}{}", target(to))
}

/// Where a withdrawn job was going and the state it was in, if its mark says that it may not have arrived.
///
/// ```
/// use tollway_pipeline::{State, moving_to};
///
/// assert_eq!(moving_to("tollway migrate: moving to sqlite:b.db; it was dead"), Some(("sqlite:b.db", State::Dead)));
/// assert_eq!(moving_to("tollway migrate: moved to sqlite:b.db"), None);
/// ```
pub fn moving_to(mark: &str) -> Option<(&str, State)> {
    let (to, was) = mark.strip_prefix(MOVING.0)?.rsplit_once(MOVING.1)?;
    Some((to, State::ALL.into_iter().find(|state| state.as_str() == was)?))
}

/// The name of the other engine as marks contain it.
pub(super) fn target(to: &str) -> String {
    to[..to.floor_char_boundary(TARGET_BYTES_MAX)].replace('\0', "\u{fffd}")
}

/// What a filter for an error must contain to find jobs that may not have arrived.
pub const MOVING_MARK: &str = MOVING.0;
