//! Errors of Postgres for a call: their fault, and whether to retry.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tollway_core::{Fault, Retry, StoreError};
use tollway_postgres_link::{ErrorText, classify, is_refused};

/// How messages name the store's URL.
pub(crate) const TEXT: ErrorText = ErrorText {
    url: "the store's URL",
    too_many_connections: "raise max_connections, or lower `connections` in the store's URL",
    detail: true,
};

/// The meaning of an error before `COMMIT` was sent: whatever it is, nothing was applied.
pub(crate) fn before_commit(error: &Error) -> StoreError {
    classify(error, Retry::Safe, &TEXT)
}

/// The meaning of an error of the statement that locks: if it runs out of time, other transactions hold the accounts.
pub(crate) fn at_lock(error: &Error) -> StoreError {
    let known = before_commit(error);
    let timed_out = error.code() == Some(&SqlState::QUERY_CANCELED);
    if timed_out { StoreError { fault: Fault::Account, ..known } } else { known }
}

/// The meaning of an error of `COMMIT`, or of what was sent together with it.
///
/// A statement that was refused has ended the transaction. Otherwise, a session that ended may have committed before.
pub(crate) fn at_commit(error: &Error) -> StoreError {
    let known = before_commit(error);
    if is_refused(error) { known } else { StoreError { retry: Retry::Unclear, ..known } }
}

/// What is stored is not what this program writes.
pub(crate) fn unreadable(what: &str, why: &dyn std::fmt::Display) -> StoreError {
    let message = format!("{what} in the database cannot be read: {why}");
    StoreError { fault: Fault::Account, retry: Retry::Useless, message }
}
