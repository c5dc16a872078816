//! Maps SQLite errors to records errors: whose fault, and whether to retry.

use rusqlite::{Error, ErrorCode, ffi};
use tollway_config::private_file::REFUSED_LINK;
use tollway_core::Retry;

use crate::records::{RecordsError, RecordsFault};

/// Maps an error.
pub(super) fn storage(error: &Error) -> RecordsError {
    if error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_CANTOPEN_SYMLINK) {
        let (fault, retry) = (RecordsFault::Storage, Retry::Useless);
        return RecordsError { fault, retry, message: REFUSED_LINK.to_owned() };
    }
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

/// Maps an error from opening a file.
pub(super) fn opening(path: &str, error: &Error) -> RecordsError {
    let known = storage(error);
    let message = format!("records cannot be kept in {path}: {}", known.message);
    RecordsError { message, ..known }
}
