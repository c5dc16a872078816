//! Maps SQLite errors to records errors: whose fault, and whether to retry.

use rusqlite::{Error, ErrorCode, ffi};
use tollway_core::Retry;

use crate::consumer_id::ConsumerId;
use crate::records::{RecordsError, RecordsFault};

/// Maps an error.
pub(super) fn storage(error: &Error) -> RecordsError {
    let (fault, retry, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (RecordsFault::Storage, Retry::Safe, "; another process holds the file")
        }
        Some(ErrorCode::DiskFull) => (RecordsFault::Storage, Retry::Safe, "; make room on the disk"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            (RecordsFault::Storage, Retry::Useless, "; let this user write the file and its folder")
        }
        Some(ErrorCode::NotADatabase) => (RecordsFault::Storage, Retry::Useless, "; name another file"),
        Some(ErrorCode::DatabaseCorrupt) => {
            (RecordsFault::Storage, Retry::Useless, "; restore the file from a copy")
        }
        Some(ErrorCode::SystemIoFailure) => (RecordsFault::Storage, Retry::Unclear, "; check the disk"),
        _ => (RecordsFault::Storage, Retry::Useless, ""),
    };
    RecordsError { fault, retry, message: format!("SQLite: {error}{advice}") }
}

/// Maps an error of a statement that writes a record.
pub(super) fn changing(consumer: &ConsumerId, error: &Error) -> RecordsError {
    let conflicts = [ffi::SQLITE_CONSTRAINT_TRIGGER, ffi::SQLITE_CONSTRAINT_UNIQUE];
    let conflicts = error.sqlite_error().is_some_and(|said| conflicts.contains(&said.extended_code));
    if conflicts { RecordsError::conflict(consumer) } else { storage(error) }
}

/// Maps an error from opening a file.
pub(super) fn opening(path: &str, error: &Error) -> RecordsError {
    let known = storage(error);
    let message = format!("records cannot be kept in {path}: {}", known.message);
    RecordsError { message, ..known }
}
