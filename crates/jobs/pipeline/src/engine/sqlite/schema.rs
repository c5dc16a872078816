//! The tables, created and migrated when the file is opened.

use rusqlite::{Connection, TransactionBehavior};
use tollway_core::Retry;

use super::error::storage;
use crate::EngineError;

/// Each migrates the tables from the version of its index to the next. A released migration never changes.
const MIGRATIONS: [&str; 2] = [include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];

/// What versions that know nothing of it leave alone, and can do without: it raises no version, so that they still open the file.
const ADDITIONS: &str = "
    -- One row: from which time, and which reading of the boot clock, the engine's time goes on.
    CREATE TABLE IF NOT EXISTS clock (
        only       INTEGER PRIMARY KEY CHECK (only = 1),
        boot       TEXT NOT NULL,
        since_boot INTEGER NOT NULL,
        at         INTEGER NOT NULL
    ) STRICT;";

/// Marks the file as a pipeline's ("TwPl"), so that another database is not taken for one.
const APPLICATION_ID: i64 = 0x5477_506c;

/// Migrates the tables to the version that this program knows.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), EngineError> {
    let sql = |error: rusqlite::Error| storage(&error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    let found: usize = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sql)?;
    let application: i64 =
        transaction.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(sql)?;
    let empty: bool = transaction
        .query_row("SELECT NOT EXISTS (SELECT * FROM sqlite_schema)", [], |row| row.get(0))
        .map_err(sql)?;
    if !empty && application != APPLICATION_ID {
        return Err(not_retryable("the file holds tables of another program: name another file".to_owned()));
    }
    if found > MIGRATIONS.len() {
        return Err(newer(found));
    }
    let has_additions: bool = transaction
        .query_row("SELECT EXISTS (SELECT * FROM sqlite_schema WHERE name = 'clock')", [], |row| row.get(0))
        .map_err(sql)?;
    if found == MIGRATIONS.len() && has_additions {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(found) {
        transaction.execute_batch(migration).map_err(sql)?;
    }
    transaction.execute_batch(ADDITIONS).map_err(sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len()).map_err(sql)?;
    transaction.commit().map_err(sql)
}

/// Whether the tables are those that this program knows, for a connection that cannot migrate them.
pub(super) fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    Ok(pragma("application_id")? == APPLICATION_ID
        && usize::try_from(pragma("user_version")?) == Ok(MIGRATIONS.len()))
}

fn newer(found: usize) -> EngineError {
    let known = MIGRATIONS.len();
    not_retryable(format!(
        "the tables are of version {found}, made by a newer Tollway; this one knows version {known}: update it, or \
         name another file"
    ))
}

fn not_retryable(message: String) -> EngineError {
    EngineError::storage(Retry::Useless, message)
}
