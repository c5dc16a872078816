//! Maps SQLite errors to engine errors: whose fault, and whether to retry.

use rusqlite::{Error, ErrorCode, ffi};
use tollway_config::private_file::REFUSED_LINK;
use tollway_core::Retry;

use crate::EngineError;

/// Why an operation failed, as the writer sees it.
#[derive(Debug)]
pub(super) enum Failure {
    /// The operation alone is wrong; others of its batch go on.
    Alone(EngineError),
    /// SQLite failed.
    Sqlite(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Alone(error)
    }
}

/// Maps an error.
pub(super) fn storage(error: &Error) -> EngineError {
    if error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_CANTOPEN_SYMLINK) {
        return EngineError::storage(Retry::Useless, REFUSED_LINK);
    }
    let (retry, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Retry::Safe, "; another program holds the file")
        }
        Some(ErrorCode::DiskFull) => (Retry::Safe, "; make room on the disk, nothing was changed"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            (Retry::Useless, "; let this user write the file and its folder, nothing was changed")
        }
        Some(ErrorCode::NotADatabase) => (Retry::Useless, "; name another file"),
        Some(ErrorCode::DatabaseCorrupt) => (Retry::Useless, "; restore the file from a backup"),
        Some(ErrorCode::SystemIoFailure) => (Retry::Unclear, "; check the disk"),
        _ => (Retry::Useless, ""),
    };
    EngineError::storage(retry, format!("SQLite: {error}{advice}"))
}

/// Whether the error concerns every operation, and not the one that met it.
pub(super) fn concerns_all(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
        )
    )
}
