//! What Postgres says, in the words of a store: who is at fault, and whether to try again.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tollway_core::{Fault, Retry, StoreError};

/// The meaning of an error while `COMMIT` was not sent: whatever it is, nothing was applied.
pub(crate) fn before_commit(error: &Error) -> StoreError {
    if let Some(said) = error.as_db_error() {
        return refused(said);
    }
    let cause = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    let lost = error.is_closed() || is_lost(error);
    let (fault, retry) = if lost { (Fault::Network, Retry::Safe) } else { (Fault::Store, Retry::Useless) };
    StoreError { fault, retry, message: format!("Postgres: {cause}") }
}

/// The meaning of an error of `COMMIT`, or of what was sent together with it.
///
/// A statement that was refused has ended the transaction. A session that ended may have committed before.
pub(crate) fn at_commit(error: &Error) -> StoreError {
    let refused = error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error));
    let known = before_commit(error);
    if refused { known } else { StoreError { retry: Retry::Unclear, ..known } }
}

/// Postgres did not answer in time.
pub(crate) fn silent(retry: Retry) -> StoreError {
    let message = "Postgres did not answer in time".to_owned();
    StoreError { fault: Fault::Network, retry, message }
}

/// What is stored is not what this program writes.
pub(crate) fn unreadable(what: &str, why: &dyn std::fmt::Display) -> StoreError {
    let message = format!("{what} in the database cannot be read: {why}");
    StoreError { fault: Fault::Line, retry: Retry::Useless, message }
}

/// Whether bytes did not come through. That they were understood and are wrong, as a certificate that is not trusted,
/// is an error of the same type, and stays so.
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

fn refused(said: &DbError) -> StoreError {
    let (retry, advice) = meaning(said.code());
    let fault = if is_of_line(said.code()) { Fault::Line } else { Fault::Store };
    let detail = said.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
    let message = format!("Postgres: {}{detail}, {}{advice}", said.message(), said.code().code());
    StoreError { fault, retry, message }
}

/// Whether it is the data that was refused, or its size: others have other data.
fn is_of_line(code: &SqlState) -> bool {
    matches!(code.code().get(..2), Some("22" | "23" | "54"))
}

/// Whether the same could succeed later, and what somebody should do.
fn meaning(code: &SqlState) -> (Retry, &'static str) {
    match code.code() {
        "28P01" | "28000" => {
            (Retry::Useless, "; check user and password in the store's URL, and pg_hba.conf")
        }
        "3D000" => (Retry::Useless, "; make the database, or name another in the store's URL"),
        "42501" => (
            Retry::Useless,
            "; let the user make the schema (GRANT CREATE ON DATABASE), or make it the owner",
        ),
        "42P01" | "42703" => (Retry::Useless, "; the tables were changed by hand: restore them"),
        "25006" => (Retry::Safe, "; this is a standby: add target_session_attrs=read-write and all hosts"),
        "53200" => (Retry::Safe, "; raise max_locks_per_transaction"),
        "53300" => (Retry::Safe, "; raise max_connections, or lower `connections` in the store's URL"),
        code => match code.get(..2) {
            // Data, constraints, syntax, limits of the program: the same again fails again.
            Some("22" | "23" | "42" | "54") => (Retry::Useless, ""),
            _ => (Retry::Safe, ""),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G7: who may not ask, and tables that are gone, concern everybody; data that is refused concerns its line.
    #[test]
    fn data_that_is_refused_is_told_from_a_server_that_does_not_let_us() {
        for (code, of_line) in [
            ("28P01", false),
            ("42501", false),
            ("42P01", false),
            ("3D000", false),
            ("22003", true),
            ("23502", true),
            ("54000", true),
        ] {
            assert_eq!(is_of_line(&SqlState::from_code(code)), of_line, "{code}");
            assert_eq!(meaning(&SqlState::from_code(code)).0, Retry::Useless, "{code}");
        }
    }
}
