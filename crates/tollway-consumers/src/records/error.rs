//! Why records were not read or changed: who is at fault, and whether to try again.

use tollway::BindError;
use tollway_core::Retry;

use crate::consumer_id::ConsumerId;
use crate::record::RecordId;

/// Why records were not read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RecordsError {
    /// What kind of thing went wrong, and so who is at fault.
    pub fault: RecordsFault,
    /// Whether the same may be asked again.
    pub retry: Retry,
    /// What happened, and what to do.
    pub message: String,
}

/// What went wrong. The first three are the caller's: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsFault {
    /// The consumer has no such record.
    NotFound,
    /// The consumer has a record of the same scope that is valid at the same time.
    Conflict,
    /// The consumer has as many records as it may have.
    TooMany,
    /// More is asked at once than may wait: an overload, and no failure of what keeps the records.
    Busy,
    /// What keeps the records is there but cannot do it.
    Storage,
    /// What keeps the records cannot be reached.
    Network,
}

impl RecordsError {
    /// Whether the caller is at fault.
    pub fn is_callers(&self) -> bool {
        matches!(self.fault, RecordsFault::NotFound | RecordsFault::Conflict | RecordsFault::TooMany)
    }

    /// The limiter got another policy under the name of the consumers' own after the gate was made.
    pub(crate) fn no_policy(error: &BindError) -> Self {
        Self { fault: RecordsFault::Storage, retry: Retry::Useless, message: error.to_string() }
    }

    pub(crate) fn not_found(consumer: &ConsumerId, id: RecordId) -> Self {
        let message = format!("consumer {consumer} has no record {id}");
        Self { fault: RecordsFault::NotFound, retry: Retry::Useless, message }
    }

    pub(crate) fn conflict(consumer: &ConsumerId) -> Self {
        let message = format!(
            "consumer {consumer} has a record for the same api_name, api_version and bank_id whose dates overlap with \
             these: change that one, or choose other dates"
        );
        Self { fault: RecordsFault::Conflict, retry: Retry::Useless, message }
    }

    pub(crate) fn too_many(consumer: &ConsumerId, most: usize) -> Self {
        let message =
            format!("consumer {consumer} has {most} records, the most there may be: delete old ones");
        Self { fault: RecordsFault::TooMany, retry: Retry::Useless, message }
    }

    pub(crate) fn busy(waiting: usize) -> Self {
        let message = format!("{waiting} requests for records wait already: try again in a moment");
        Self { fault: RecordsFault::Busy, retry: Retry::Safe, message }
    }

    /// The thread or task that was to answer has ended.
    pub(crate) fn closed() -> Self {
        let message = "what keeps the records was closed before it answered".to_owned();
        Self { fault: RecordsFault::Storage, retry: Retry::Unclear, message }
    }

    /// What is kept is not what this program writes.
    pub(crate) fn unreadable(what: &str, why: &dyn std::fmt::Display) -> Self {
        let message = format!("{what} of a record cannot be read, it was changed by hand: {why}");
        Self { fault: RecordsFault::Storage, retry: Retry::Useless, message }
    }
}
