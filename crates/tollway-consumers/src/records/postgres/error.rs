//! What Postgres says, in the words of records: who is at fault, and whether to try again.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tollway_core::Retry;

use crate::consumer_id::ConsumerId;
use crate::records::{RecordsError, RecordsFault};

/// The meaning of an error. If the connection was lost, nobody knows what became of what was sent: `lost` says what
/// that means for it.
pub(super) fn failed(error: &Error, lost: Retry) -> RecordsError {
    if let Some(said) = error.as_db_error() {
        let known = refused(said);
        // A statement that was refused has changed nothing. A session that was ended may have committed before.
        let ended = said.parsed_severity() != Some(Severity::Error);
        let retry = if ended && lost == Retry::Unclear { lost } else { known.retry };
        return RecordsError { retry, ..known };
    }
    let cause = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    let (fault, retry) = if error.is_closed() || is_lost(error) {
        (RecordsFault::Network, lost)
    } else {
        (RecordsFault::Storage, Retry::Useless)
    };
    RecordsError { fault, retry, message: format!("Postgres: {cause}") }
}

/// The meaning of an error of a statement that writes a record.
pub(super) fn changing(consumer: &ConsumerId, error: &Error) -> RecordsError {
    match error.code() {
        Some(&SqlState::EXCLUSION_VIOLATION | &SqlState::UNIQUE_VIOLATION) => {
            RecordsError::conflict(consumer)
        }
        _ => failed(error, Retry::Unclear),
    }
}

/// Postgres did not answer in time.
pub(super) fn silent(retry: Retry) -> RecordsError {
    let message = "Postgres did not answer in time".to_owned();
    RecordsError { fault: RecordsFault::Network, retry, message }
}

/// Whether bytes did not come through. A certificate that is not trusted came through, and stays so.
fn is_lost(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return io.kind() != std::io::ErrorKind::InvalidData;
        }
        cause = inner.source();
    }
    false
}

fn refused(said: &DbError) -> RecordsError {
    let (retry, advice) = match said.code().code() {
        "28P01" | "28000" => {
            (Retry::Useless, "; check user and password in the URL of records, and pg_hba.conf")
        }
        "3D000" => (Retry::Useless, "; make the database, or name another in the URL of records"),
        "42501" => (
            Retry::Useless,
            "; let the user make the schema (GRANT CREATE ON DATABASE), or make it the owner",
        ),
        "42P01" | "42703" => (Retry::Useless, "; the tables were changed by hand: restore them"),
        "25006" => (Retry::Safe, "; this is a standby: add target_session_attrs=read-write and all hosts"),
        "53300" => (Retry::Safe, "; raise max_connections"),
        code => match code.get(..2) {
            // Data, constraints, syntax, limits of the program: the same again fails again.
            Some("22" | "23" | "42" | "54") => (Retry::Useless, ""),
            _ => (Retry::Safe, ""),
        },
    };
    let message = format!("Postgres: {}, {}{advice}", said.message(), said.code().code());
    RecordsError { fault: RecordsFault::Storage, retry, message }
}
