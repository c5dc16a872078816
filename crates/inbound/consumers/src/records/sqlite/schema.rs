//! The tables, created and migrated by the first process that opens them.

use rusqlite::{Connection, TransactionBehavior};
use tollway_core::Retry;

use super::error::storage;
use crate::records::{RecordsError, RecordsFault};

/// Each migrates the tables from the version of its index to the next. A released migration never changes.
const MIGRATIONS: [&str; 3] =
    [include_str!("migrations/1.sql"), include_str!("migrations/2.sql"), include_str!("migrations/3.sql")];

/// Migrates the tables to the version that this program knows.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), RecordsError> {
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    // Several processes may open the file at once: one migrates, the others wait here.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| storage(&error))?;
    let found = version(&transaction)?;
    if found > MIGRATIONS.len() {
        return Err(newer(found));
    }
    if found == 0 && !is_empty(&transaction)? {
        return Err(foreign());
    }
    for migration in MIGRATIONS.iter().skip(found) {
        transaction.execute_batch(migration).map_err(|error| storage(&error))?;
    }
    let count = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "user_version", count).map_err(|error| storage(&error))?;
    transaction.commit().map_err(|error| storage(&error))
}

fn version(connection: &Connection) -> Result<usize, RecordsError> {
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(|error| storage(&error))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

fn is_empty(connection: &Connection) -> Result<bool, RecordsError> {
    connection
        .query_row("SELECT NOT EXISTS (SELECT * FROM sqlite_schema)", [], |row| row.get(0))
        .map_err(|error| storage(&error))
}

fn newer(found: usize) -> RecordsError {
    let known = MIGRATIONS.len();
    not_retryable(format!(
        "the tables of records are of version {found}, made by a newer Tollway; this one knows version {known}: update \
         it, or name another file"
    ))
}

fn foreign() -> RecordsError {
    not_retryable("the file holds tables of another program: name another file".to_owned())
}

fn not_retryable(message: String) -> RecordsError {
    RecordsError { fault: RecordsFault::Storage, retry: Retry::Useless, message }
}
