//! The errors of takes and of building a limiter.

use tollway_core::{CostError, NameError, PolicyError, Refusal, StoreError};

use crate::Denied;

/// Why a take gave no permit.
#[derive(thiserror::Error)]
pub enum TakeError {
    /// Denied, or not granted within the wait. Nothing was taken.
    #[error(transparent)]
    Denied(Box<Denied>),
    /// No policy of that name.
    #[error("there is no policy {name:?}{}", .meant.as_ref().map(|known| format!("; did you mean {known:?}?")).unwrap_or_default())]
    UnknownPolicy {
        /// The unknown name.
        name: String,
        /// The name that may have been meant.
        meant: Option<String>,
    },
    /// A subject or id that is not one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A cost that is not one.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// Something that can never be granted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store did not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The blocking API was called on a thread of an async runtime.
    #[error("this would block a thread of an async runtime; use `.await` instead")]
    BlockingInAsync,
    /// The operating system refused a thread for timers.
    #[error("no thread for timers could be started: {0}")]
    Runtime(String),
}

tollway_core::debug_as_display!(TakeError);

impl TakeError {
    /// The denial, if that is what it is.
    pub fn denied(&self) -> Option<&Denied> {
        match self {
            Self::Denied(denied) => Some(denied),
            _ => None,
        }
    }
}

/// Why a limiter could not be built.
#[derive(thiserror::Error)]
pub enum BuildError {
    /// A policy that is not one.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Two policies of one name.
    #[error("policy {0} is defined twice")]
    SamePolicy(String),
    /// The config file is wrong or not there.
    #[error(transparent)]
    Config(#[from] crate::ConfigError),
    /// The store's file cannot be used.
    #[error(transparent)]
    File(#[from] tollway_memory::FileError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

tollway_core::debug_as_display!(BuildError);
