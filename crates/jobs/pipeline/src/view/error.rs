//! Why a view could not be read, or an operation was refused.

use crate::EngineError;

/// Why a view could not be read, or an operation was refused.
#[derive(Clone, thiserror::Error)]
pub enum ViewError {
    /// There is no such job, group or stage.
    #[error("{message}")]
    NotFound {
        /// What is missing.
        message: String,
        /// What to do.
        advice: String,
    },
    /// Several jobs are meant.
    #[error("{message}")]
    Ambiguous {
        /// Which.
        message: String,
        /// What to do.
        advice: String,
    },
    /// The job is in another state, or was changed meanwhile.
    #[error("{message}")]
    Refused {
        /// The state.
        message: String,
        /// What to do; empty: nothing.
        advice: String,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

tollway_core::debug_as_display!(ViewError);

impl ViewError {
    pub(super) fn not_found(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::NotFound { message: message.into(), advice: advice.into() }
    }

    pub(super) fn refused(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Refused { message: message.into(), advice: advice.into() }
    }
}
