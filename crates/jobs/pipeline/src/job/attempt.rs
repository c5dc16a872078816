//! An attempt that did not finish its job, and the evidence that is kept of it.

use serde::{Deserialize, Serialize};
use tollway_core::Timestamp;

use super::bounds::{DETAIL_BYTES_MAX, ERROR_BYTES_MAX};

/// Why an attempt did not finish its job. Each cause is counted apart; only failures use tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The handler answered that it failed, or did not answer in time.
    Failure,
    /// The handler's process died, or a worker lost its claim without an answer.
    Crash,
    /// The vendor refused the call for its rate. No fault of the job.
    RateLimited,
}

impl Cause {
    /// As it is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Crash => "crash",
            Self::RateLimited => "rate_limited",
        }
    }

    pub(crate) fn stored(text: &str) -> Self {
        match text {
            "crash" => Self::Crash,
            "rate_limited" => Self::RateLimited,
            _ => Self::Failure,
        }
    }
}

/// What a worker reports of an attempt that did not finish its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    cause: Cause,
    error: String,
    detail: String,
}

impl Attempt {
    /// An attempt with its error: one line, the same for the same fault, because dead letters are grouped by it. Longer
    /// texts are cut at [`ERROR_BYTES_MAX`].
    pub fn new(cause: Cause, error: &str) -> Self {
        Self { cause, error: cut(error, ERROR_BYTES_MAX), detail: String::new() }
    }

    /// The same with further detail for a reader, cut at [`DETAIL_BYTES_MAX`].
    pub fn detail(self, detail: &str) -> Self {
        Self { detail: cut(detail, DETAIL_BYTES_MAX), ..self }
    }

    /// The cause.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The error.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// Further detail, or empty.
    pub fn details(&self) -> &str {
        &self.detail
    }

    /// A claim that expired, and was taken over by another worker.
    pub fn expired() -> Self {
        Self::new(Cause::Crash, "the claim expired without an answer from its worker")
    }
}

/// What is kept of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The number of its claim.
    pub number: u64,
    /// The worker that held the claim.
    pub worker: String,
    /// When the job was claimed.
    pub started_at: Timestamp,
    /// When the attempt was reported, or taken over.
    pub ended_at: Timestamp,
    /// What was reported.
    pub attempt: Attempt,
}

/// The text up to this many bytes, without half a character. SQL texts end at a NUL, so those are replaced.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].replace('\0', "\u{fffd}")
}
