//! Why a log cannot be replayed.

use std::io;

use tollway_core::{CostError, Limit, PolicyError, StoreError};

use crate::simulate::log::{LINE_BYTES_SKIPPED_MAX, LOG_BYTES_MAX};

/// Why a log cannot be replayed. Each variant begins with whose fault it is.
#[derive(thiserror::Error)]
pub enum SimulateError {
    /// The caller: all limits of a policy are concurrency limits, and a log does not say how long calls took.
    #[error("{limit} cannot be simulated: a log does not say how long calls took")]
    OnlySlots {
        /// The first of them.
        limit: Box<Limit>,
    },
    /// The caller: calls wait under a sliding limit, which cannot be booked ahead.
    #[error("waits under `{limit}` cannot be simulated: a sliding limit cannot be booked ahead")]
    WaitUnderSliding {
        /// The sliding limit.
        limit: Box<Limit>,
    },
    /// The caller: the limits make no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The caller: a cost that the policy does not have.
    #[error(transparent)]
    Cost(#[from] CostError),
    /// The log: it has no line that can be read.
    #[error("the log has no line that can be read")]
    Empty,
    /// The log: it has none of the known formats.
    #[error("the log is neither JSON lines, nor CSV with a line of names, nor an access log")]
    UnknownFormat,
    /// The log: no field has one of the names in [`TIME_NAMES`](crate::simulate::TIME_NAMES).
    #[error("the log has no field with a known time name")]
    NoTime {
        /// The fields that it has.
        known: Vec<String>,
    },
    /// The log: it does not have this field.
    #[error("the log has no field {field:?}")]
    NoField {
        /// The field that the caller named.
        field: String,
        /// The fields that it has.
        known: Vec<String>,
    },
    /// The log: a line is longer than [`LINE_BYTES_SKIPPED_MAX`].
    #[error("line {line} is longer than {LINE_BYTES_SKIPPED_MAX} bytes")]
    EndlessLine {
        /// Its number, from 1.
        line: u64,
    },
    /// The log: it is larger than [`LOG_BYTES_MAX`].
    #[error("the log has more than {LOG_BYTES_MAX} bytes")]
    TooLarge,
    /// The machine: the log cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The machine: the reader thread cannot start.
    #[error("cannot start a thread to read the log: {0}")]
    Thread(io::Error),
    /// The machine: the outcome of a call cannot be written.
    #[error("cannot write the outcomes: {0}")]
    Outcomes(io::Error),
    /// Tollway: its own store in memory failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Tollway: its engine returned an outcome that no take has.
    #[error("{0}")]
    Engine(String),
}

tollway_core::debug_as_display!(SimulateError);
