//! Why records were not read or changed: whose fault it is, and whether to retry.

use tollway::BindError;
use tollway_core::Retry;

use crate::consumer_id::ConsumerId;
use crate::record::RecordId;

/// Why records were not read or changed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RecordsError {
    /// What went wrong.
    pub fault: RecordsFault,
    /// Whether the operation may be retried.
    pub retry: Retry,
    /// What happened, and what to do.
    pub message: String,
}

tollway_core::debug_as_display!(RecordsError);

/// What went wrong. The first two are caller errors: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsFault {
    /// The consumer has no such record.
    NotFound,
    /// The consumer has the maximum number of records.
    TooMany,
    /// The queue is full: an overload, not a failure of the database.
    Busy,
    /// The database responds but cannot do it.
    Storage,
    /// The database cannot be reached.
    Network,
}

impl RecordsError {
    /// Whether it is a caller error.
    pub fn is_callers(&self) -> bool {
        matches!(self.fault, RecordsFault::NotFound | RecordsFault::TooMany)
    }

    /// The limiter got another policy with the consumers' name after the gate was built.
    pub(crate) fn no_policy(error: &BindError) -> Self {
        Self { fault: RecordsFault::Storage, retry: Retry::Useless, message: error.to_string() }
    }

    pub(crate) fn not_found(consumer: &ConsumerId, id: RecordId) -> Self {
        let message = format!("consumer {consumer} has no record {id}");
        Self { fault: RecordsFault::NotFound, retry: Retry::Useless, message }
    }

    pub(crate) fn too_many(consumer: &ConsumerId, most: usize) -> Self {
        let message = format!("consumer {consumer} has {most} records, the most allowed: delete old ones");
        Self { fault: RecordsFault::TooMany, retry: Retry::Useless, message }
    }

    pub(crate) fn busy(waiting: usize) -> Self {
        let message = format!("{waiting} requests for records are already queued: retry in a moment");
        Self { fault: RecordsFault::Busy, retry: Retry::Safe, message }
    }

    /// The thread or task that should respond has ended.
    pub(crate) fn closed() -> Self {
        let message = "the records were closed before they responded".to_owned();
        Self { fault: RecordsFault::Storage, retry: Retry::Unclear, message }
    }

    /// The database holds a value that this program never writes.
    pub(crate) fn unreadable(what: &str, why: &dyn std::fmt::Display) -> Self {
        let message = format!("{what} of a record cannot be read, it was changed by hand: {why}");
        Self { fault: RecordsFault::Storage, retry: Retry::Useless, message }
    }
}
