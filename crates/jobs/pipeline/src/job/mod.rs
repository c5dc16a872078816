//! A job: one piece of work in one stage.

pub(crate) mod attempt;
pub mod bounds;
pub(crate) mod cost;
pub mod transition;

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tollway_core::{Name, Timestamp, is_invisible};

use self::bounds::{GROUP_BYTES_MAX, JOB_BYTES_MAX, KEY_BYTES_MAX};
use self::cost::JobCost;

/// The number of a job within its engine. Never used again, and larger for a job that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(u64);

impl JobId {
    /// The job of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It can be claimed.
    Ready,
    /// It is not due yet: it was enqueued with a delay, or waits before its next try.
    Delayed,
    /// It waits until its whole group has left the stages before.
    Held,
    /// A worker has claimed it.
    Running,
    /// It is a dead letter: it waits for an operator.
    Dead,
    /// It finished, and its outputs were handed on.
    Done,
    /// An operator cancelled it, or dropped the dead letter.
    Cancelled,
}

impl State {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Ready, Self::Delayed, Self::Held, Self::Running, Self::Dead, Self::Done, Self::Cancelled];

    /// As it is printed and typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Held => "held",
            Self::Running => "running",
            Self::Dead => "dead",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the job has left its stage: it is done or cancelled. A dead letter has not.
    pub fn has_left(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }

    /// The number under which engines store it, which never changes. States that have left are last.
    pub fn number(self) -> i64 {
        self as i64
    }

    /// The state of this number.
    pub fn of_number(number: i64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|index| Self::ALL.get(index).copied())
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A job as its engine keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Its stage.
    pub stage: Name,
    /// What makes it unique within its stage.
    pub key: String,
    /// The group it belongs to, such as all chunks of one file.
    pub group: Option<String>,
    /// JSON, byte for byte as it was given.
    pub data: String,
    /// Higher is claimed first; 0 by default.
    pub priority: i16,
    /// What it takes before it is claimed.
    pub cost: JobCost,
    /// What it is doing.
    pub state: State,
    /// When a delayed job is due, or when the claim of a running one expires; otherwise without meaning.
    pub due_at: Timestamp,
    /// The number of its newest claim: how often it was claimed.
    pub claim_number: u64,
    /// The worker of its newest claim, or empty.
    pub worker: String,
    /// Failed attempts since it was enqueued or redriven: the tries it has used.
    pub failures: u32,
    /// Attempts that crashed since it was enqueued or redriven.
    pub crashes: u32,
    /// Attempts that the vendor refused for its rate. They use no try.
    pub rate_limited: u32,
    /// The error of its newest attempt that did not finish it, or empty.
    pub error: String,
    /// When it entered its stage. Retention runs from here.
    pub created_at: Timestamp,
    /// When it was last claimed, finished, given back, or changed by an operator.
    pub changed_at: Timestamp,
}

impl Job {
    /// A job that was never claimed, ready or delayed, with the cost of its stage.
    pub fn waiting(
        id: JobId,
        stage: Name,
        key: String,
        data: String,
        due_at: Timestamp,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            stage,
            key,
            group: None,
            data,
            priority: 0,
            cost: JobCost::OF_STAGE,
            state: transition::waiting(due_at, created_at),
            due_at,
            claim_number: 0,
            worker: String::new(),
            failures: 0,
            crashes: 0,
            rate_limited: 0,
            error: String::new(),
            created_at,
            changed_at: created_at,
        }
    }
}

/// Why a job, an output or an edit is wrong.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A text is over its bound.
    #[error("{what} has {bytes} bytes, more than the {max} allowed")]
    TooLong {
        /// The kind of text.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// A text is empty.
    #[error("{what} is empty")]
    Empty {
        /// The kind of text.
        what: &'static str,
    },
    /// A text contains a NUL, which SQL databases refuse.
    #[error("{what} contains a NUL")]
    Nul {
        /// The kind of text.
        what: &'static str,
    },
    /// A text contains a character that is not seen, so that it looks like another text.
    #[error("{what} contains the invisible character U+{:04X}: remove it from the input", u32::from(*.character))]
    Invisible {
        /// The kind of text.
        what: &'static str,
        /// The first such character.
        character: char,
    },
    /// The data is not JSON.
    #[error("the data is not JSON: {reason}")]
    NotJson {
        /// What the parser found.
        reason: String,
    },
    /// The cost cannot be read.
    #[error("the cost is not {{\"policy\": {{\"unit\": amount}}}}: {reason}")]
    Cost {
        /// What the parser found.
        reason: String,
    },
}

tollway_core::debug_as_display!(JobError);

/// A job to enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    pub(crate) stage: Name,
    pub(crate) key: String,
    pub(crate) group: Option<String>,
    pub(crate) data: String,
    pub(crate) priority: i16,
    pub(crate) cost: JobCost,
    pub(crate) not_before: Timestamp,
    #[serde(default)]
    pub(crate) again: bool,
}

impl NewJob {
    /// A job for this stage, ready at once. The engine enqueues a key once in each stage. The data is JSON and is kept byte
    /// for byte.
    pub fn new(stage: &Name, key: &str, data: &str) -> Result<Self, JobError> {
        check_visible("the key", key, KEY_BYTES_MAX)?;
        check_data(data)?;
        Ok(Self {
            stage: stage.clone(),
            key: key.to_owned(),
            group: None,
            data: data.to_owned(),
            priority: 0,
            cost: JobCost::OF_STAGE,
            not_before: Timestamp::EPOCH,
            again: false,
        })
    }

    /// The same in this group.
    pub fn group(self, group: &str) -> Result<Self, JobError> {
        check_visible("the group", group, GROUP_BYTES_MAX)?;
        Ok(Self { group: Some(group.to_owned()), ..self })
    }

    /// The same with this priority: higher is claimed first.
    pub fn priority(self, priority: i16) -> Self {
        Self { priority, ..self }
    }

    /// The same with a cost of its own.
    pub fn cost(self, cost: JobCost) -> Self {
        Self { cost, ..self }
    }

    /// The same, delayed until this time.
    pub fn not_before(self, time: Timestamp) -> Self {
        Self { not_before: time, ..self }
    }

    /// The same, also if its stage has a cancelled job with this key. Not in place of one that moved to another engine.
    pub fn again(self) -> Self {
        Self { again: true, ..self }
    }

    /// Its stage.
    pub fn stage(&self) -> &Name {
        &self.stage
    }

    /// What makes it unique within its stage.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its JSON.
    pub fn data(&self) -> &str {
        &self.data
    }

    /// A cost of its own, or that of its stage.
    pub fn own_cost(&self) -> &JobCost {
        &self.cost
    }

    /// Whether it replaces a cancelled job: [`again`](Self::again).
    pub fn replaces_cancelled(&self) -> bool {
        self.again
    }

    /// The job that it is in an engine, ready or delayed.
    pub fn into_job(self, id: JobId, now: Timestamp) -> Job {
        Job {
            group: self.group,
            priority: self.priority,
            cost: self.cost,
            ..Job::waiting(id, self.stage, self.key, self.data, self.not_before, now)
        }
    }

    /// The job of another engine, which has checked it. Only a delay that it still has is kept.
    pub fn of_moved(job: &Job) -> Self {
        Self {
            stage: job.stage.clone(),
            key: job.key.clone(),
            group: job.group.clone(),
            data: job.data.clone(),
            priority: job.priority,
            cost: job.cost.clone(),
            not_before: transition::delay(job.state, job.due_at),
            again: false,
        }
    }

    /// Checks what came from another process.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        check_visible("the key", &self.key, KEY_BYTES_MAX)?;
        self.group.as_ref().map_or(Ok(()), |group| check_visible("the group", group, GROUP_BYTES_MAX))?;
        check_data(&self.data)
    }

    /// How many bytes it counts for in a batch.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.data.len() + self.group.as_ref().map_or(0, String::len)
    }
}

/// Checks the key or the group of a new job: operators see it, and type it. Jobs that an engine has already may have any.
pub(crate) fn check_visible(what: &'static str, text: &str, max: usize) -> Result<(), JobError> {
    check_text(what, text, max)?;
    let invisible = text.chars().find(|c| is_invisible(*c));
    invisible.map_or(Ok(()), |character| Err(JobError::Invisible { what, character }))
}

/// Checks a key, a group or the like.
pub(crate) fn check_text(what: &'static str, text: &str, max: usize) -> Result<(), JobError> {
    match text {
        "" => Err(JobError::Empty { what }),
        _ if text.len() > max => Err(JobError::TooLong { what, bytes: text.len(), max }),
        _ if text.contains('\0') => Err(JobError::Nul { what }),
        _ => Ok(()),
    }
}

/// Checks that data is JSON and within its bound.
pub fn check_data(data: &str) -> Result<(), JobError> {
    check_text("the data", data, JOB_BYTES_MAX)?;
    let json = serde_json::from_str::<IgnoredAny>(data);
    json.map(drop).map_err(|error| JobError::NotJson { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(key: &str, data: &str) -> Result<NewJob, JobError> {
        NewJob::new(&Name::new("autotag").unwrap(), key, data)
    }

    #[test]
    fn data_must_be_json_and_stays_as_given() {
        assert_eq!(job("k", "{ \"b\":1,  \"a\":2 }").unwrap().data, "{ \"b\":1,  \"a\":2 }");
        assert!(matches!(job("k", "{"), Err(JobError::NotJson { .. })));
        assert!(matches!(
            job("k", &format!("\"{}\"", "x".repeat(JOB_BYTES_MAX))),
            Err(JobError::TooLong { .. })
        ));
    }

    #[test]
    fn keys_are_bounded() {
        assert_eq!(job("", "1"), Err(JobError::Empty { what: "the key" }));
        assert_eq!(job("a\0", "1"), Err(JobError::Nul { what: "the key" }));
        assert!(matches!(job(&"k".repeat(KEY_BYTES_MAX + 1), "1"), Err(JobError::TooLong { .. })));
    }

    /// Two keys that look the same are the same, and a key does not turn around what a terminal prints after it.
    #[test]
    fn keys_and_groups_with_invisible_characters_are_refused() {
        for character in ['\u{202e}', '\u{2028}', '\u{200b}', '\u{3164}', '\u{1b}'] {
            let text = format!("a{character}b");
            assert_eq!(job(&text, "1"), Err(JobError::Invisible { what: "the key", character }));
            let group = job("k", "1").unwrap().group(&text);
            assert_eq!(group, Err(JobError::Invisible { what: "the group", character }));
            let sent = NewJob { key: text, ..job("k", "1").unwrap() };
            assert!(sent.check().is_err());
        }
        let error = job("a\u{202e}fdp", "1").unwrap_err().to_string();
        assert_eq!(error, "the key contains the invisible character U+202E: remove it from the input");
        assert!(job("Scan 9.00\u{202f}PM größe.pdf", "1").is_ok());
    }

    #[test]
    fn state_numbers_are_what_files_contain() {
        for (number, state) in (0..).zip(State::ALL) {
            assert_eq!((state.number(), State::of_number(number)), (number, Some(state)));
        }
        assert_eq!(State::of_number(7), None);
    }
}
