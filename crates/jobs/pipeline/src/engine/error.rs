//! Why an engine did not do what it was asked.

use std::fmt;

use serde::{Deserialize, Serialize};
use tollway_core::Retry;

use crate::JobError;

/// Why an engine did not do what it was asked, and whether to retry.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{fault}: {message}")]
pub struct EngineError {
    /// The cause.
    pub fault: EngineFault,
    /// Whether the same call may be repeated.
    pub retry: Retry,
    /// What happened, and what to do.
    pub message: String,
}

tollway_core::debug_as_display!(EngineError);

/// The cause of an engine error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineFault {
    /// The call was wrong, or this engine does not support it.
    Caller,
    /// The engine cannot store anything: its disk is full, its file read-only, its database failing.
    Storage,
    /// Too many calls wait already.
    Busy,
    /// The engine could not be reached, or did not answer in time.
    Network,
}

impl fmt::Display for EngineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caller => "wrong call",
            Self::Storage => "jobs cannot be stored",
            Self::Busy => "engine busy",
            Self::Network => "engine unreachable",
        })
    }
}

impl EngineError {
    /// A wrong call.
    pub fn caller(message: impl Into<String>) -> Self {
        Self { fault: EngineFault::Caller, retry: Retry::Useless, message: message.into() }
    }

    /// What this engine cannot do, as its capabilities say.
    pub fn unsupported(engine: &str, what: &str) -> Self {
        Self::caller(format!("{engine} cannot {what}; its capabilities say so"))
    }

    /// An engine that did not answer in time.
    pub fn no_answer(what: &str) -> Self {
        let message = format!("no answer in time: {what}");
        Self { fault: EngineFault::Network, retry: Retry::Unclear, message }
    }

    /// A storage that fails.
    pub fn storage(retry: Retry, message: impl Into<String>) -> Self {
        Self { fault: EngineFault::Storage, retry, message: message.into() }
    }
}

impl From<JobError> for EngineError {
    fn from(error: JobError) -> Self {
        Self::caller(error.to_string())
    }
}
