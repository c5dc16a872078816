//! Maps Postgres errors to records errors: whose fault, and whether to retry.

use tokio_postgres::Error;
use tollway_core::{Fault, Retry, StoreError};
use tollway_postgres_link::{ErrorText, classify, timed_out};

use crate::records::{RecordsError, RecordsFault};

/// How messages name the URL. Server details are left out: they may show a consumer's record.
pub(super) const TEXT: ErrorText =
    ErrorText { url: "the URL of records", too_many_connections: "raise max_connections", detail: false };

/// Maps an error. If the connection was lost, the outcome is unknown, and `lost` says what that means for a retry.
pub(super) fn failed(error: &Error, lost: Retry) -> RecordsError {
    in_records(classify(error, lost, &TEXT))
}

/// Postgres did not respond in time.
pub(super) fn silent(retry: Retry) -> RecordsError {
    in_records(timed_out(retry))
}

/// Converts a store error to a records error.
pub(super) fn in_records(error: StoreError) -> RecordsError {
    let StoreError { fault, retry, message } = error;
    let fault = if fault == Fault::Network { RecordsFault::Network } else { RecordsFault::Storage };
    RecordsError { fault, retry, message }
}
