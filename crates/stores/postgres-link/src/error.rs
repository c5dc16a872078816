//! Errors of Postgres: their fault, whether to retry, and what to do about them.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tollway_core::{Fault, Retry, StoreError};

/// Message parts that differ between the crates that use this one.
#[derive(Clone, Copy, Debug)]
pub struct ErrorText {
    /// How the user knows the URL: `the store's URL`.
    pub url: &'static str,
    /// What to do about too many connections.
    pub too_many_connections: &'static str,
    /// Whether a message repeats the server's detail, which may hold what was to be written.
    pub detail: bool,
}

/// The meaning of an error. `if_lost` is what a lost connection means for the statement that was sent.
pub fn classify(error: &Error, if_lost: Retry, text: &ErrorText) -> StoreError {
    if let Some(said) = error.as_db_error() {
        let known = refused(said, text);
        // A session that the server ended may have committed before.
        let retry = if if_lost == Retry::Unclear && !is_refused(error) { if_lost } else { known.retry };
        return StoreError { retry, ..known };
    }
    let cause = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    let lost = error.is_closed() || is_lost(error);
    let (fault, retry) = if lost { (Fault::Network, if_lost) } else { (Fault::Store, Retry::Useless) };
    StoreError { fault, retry, message: format!("Postgres: {cause}") }
}

/// Whether the server refused a statement, or ended the session while it waited for one: it has changed nothing.
pub fn is_refused(error: &Error) -> bool {
    error.as_db_error().is_some_and(|said| {
        said.parsed_severity() == Some(Severity::Error)
            || *said.code() == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
    })
}

/// The server ended the session because it was idle in a transaction for too long.
pub fn idled_out() -> StoreError {
    let message = "Postgres ended a session that held locks for too long".to_owned();
    StoreError { fault: Fault::Account, retry: Retry::Safe, message }
}

/// Postgres did not answer in time.
pub fn timed_out(retry: Retry) -> StoreError {
    let message = "Postgres did not answer in time".to_owned();
    StoreError { fault: Fault::Network, retry, message }
}

/// Whether bytes were lost. A certificate that is not trusted arrived, and stays untrusted: it is an error of the same
/// type.
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

fn refused(said: &DbError, text: &ErrorText) -> StoreError {
    let (retry, advice) = meaning(said.code(), text);
    let of_account = is_of_line(said.code()) || is_contention(said.code());
    let fault = if of_account { Fault::Account } else { Fault::Store };
    let detail = said.detail().filter(|_| text.detail).map(|detail| format!(" ({detail})"));
    let detail = detail.unwrap_or_default();
    let message = format!("Postgres: {}{detail}, {}{advice}", said.message(), said.code().code());
    StoreError { fault, retry, message }
}

/// Whether the data was refused, or its size: other data may be accepted.
fn is_of_line(code: &SqlState) -> bool {
    matches!(code.code().get(..2), Some("22" | "23" | "54"))
}

/// Whether other transactions were in the way: a lock was not free in time (55P03), or was held for too long (25P03), or
/// the transaction lost to another (40001, 40P01). The server works.
fn is_contention(code: &SqlState) -> bool {
    matches!(code.code(), "55P03" | "25P03" | "40001" | "40P01")
}

/// Whether the same could succeed later, and what to do.
fn meaning(code: &SqlState, text: &ErrorText) -> (Retry, String) {
    let url = text.url;
    match code.code() {
        "28P01" | "28000" => {
            let advice =
                format!("; check user and password ({url}, or where its password is kept), and pg_hba.conf");
            (Retry::Useless, advice)
        }
        "3D000" => (Retry::Useless, format!("; make the database, or name another in {url}")),
        "42501" => (
            Retry::Useless,
            "; let the user make the schema (GRANT CREATE ON DATABASE), or make it the owner".to_owned(),
        ),
        "42P01" | "42703" => (Retry::Useless, "; the tables were changed by hand: restore them".to_owned()),
        "25006" => {
            (Retry::Safe, "; this is a standby: add target_session_attrs=read-write and all hosts".to_owned())
        }
        "55P03" => (Retry::Safe, "; other transactions held the lock".to_owned()),
        "53200" => (Retry::Safe, "; raise max_locks_per_transaction".to_owned()),
        "53300" => (Retry::Safe, format!("; {}", text.too_many_connections)),
        code => match code.get(..2) {
            // Data, constraints, syntax, limits of the program: the same again fails again.
            Some("22" | "23" | "42" | "54") => (Retry::Useless, String::new()),
            _ => (Retry::Safe, String::new()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: ErrorText = ErrorText { url: "the URL", too_many_connections: "wait", detail: true };

    /// A busy account says nothing about the health of the server, and is tried again.
    #[test]
    fn contention_is_retryable_and_no_failure_of_the_server() {
        for (code, contention) in [
            ("55P03", true),
            ("25P03", true),
            ("40001", true),
            ("40P01", true),
            ("57014", false),
            ("57P01", false),
        ] {
            assert_eq!(is_contention(&SqlState::from_code(code)), contention, "{code}");
            assert_eq!(meaning(&SqlState::from_code(code), &TEXT).0, Retry::Safe, "{code}");
        }
    }

    /// G7: missing permissions and missing tables affect every account; refused data affects its account only.
    #[test]
    fn refused_data_is_distinguished_from_permission_errors() {
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
            assert_eq!(meaning(&SqlState::from_code(code), &TEXT).0, Retry::Useless, "{code}");
        }
    }
}
