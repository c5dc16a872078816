//! The outcome of each call, for a caller that wants more than the summary.

use tollway_core::{Limit, Span};

use crate::simulate::log::LoggedCall;

/// The outcome of one call under one trial policy.
#[derive(Clone, Copy, Debug)]
pub struct CallOutcome<'a> {
    /// The number of the call in the log, from 1. Lines that are skipped do not count.
    pub number: u64,
    /// The call.
    pub call: &'a LoggedCall,
    /// The title of the trial policy.
    pub title: &'a str,
    /// The engine's decision.
    pub decision: CallDecision<'a>,
}

/// The decision about one call.
#[derive(Clone, Copy, Debug)]
pub enum CallDecision<'a> {
    /// Granted after this wait.
    Granted {
        /// The wait.
        wait: Span,
    },
    /// Denied.
    Denied {
        /// By this limit, if it is known.
        limit: Option<&'a Limit>,
        /// The call fits after this time; never if it is `None`.
        fits_after: Option<Span>,
    },
}

/// Gets the outcome of each call. An error ends the replay.
pub(super) type Observer<'o> = Box<dyn FnMut(CallOutcome<'_>) -> std::io::Result<()> + 'o>;
