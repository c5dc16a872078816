//! Opens the file so that every acknowledged change survives a crash.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tollway_config::private_file::{create_private, in_real_folder};
use tollway_core::Retry;

use super::error::{opening, storage};
use super::schema;
use crate::records::{RecordsError, RecordsFault};

/// How long a write waits for other writing processes. One commit takes a few disk writes.
pub(super) const WRITE_WITHIN: Duration = Duration::from_secs(5);

/// How long a read waits for a commit by another process. Shorter: consumers' calls may wait for it, and their last known
/// limits can be used instead.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(1);

/// A commit and the removal of its journal (`EXTRA`) are on disk before the response: after a power cut, a remaining journal
/// would roll the commit back.
const DURABLE: &str = "PRAGMA synchronous = EXTRA; PRAGMA trusted_schema = OFF;";

/// No URI flag: the path is taken literally. Not through a symbolic link in the last part of the path.
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_CREATE)
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

/// Opens or creates a file with its tables. Its later statements wait this long for other processes.
pub(super) fn open(path: &str, others_within: Duration) -> Result<Connection, RecordsError> {
    if path.is_empty() {
        return Err(wrong("the URL names no file: write sqlite:PATH, or sqlite::memory:".to_owned()));
    }
    let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(wrong(format!(
            "records cannot be kept in {path}: there is no folder {folder}, make it first"
        )));
    }
    // SQLite gives the journal the mode of the file.
    let _ = create_private(Path::new(path));
    let mut connection = Connection::open_with_flags(in_real_folder(Path::new(path)), FLAGS)
        .map_err(|error| opening(path, &error))?;
    set_up(&mut connection)
        .map_err(|error| RecordsError { message: format!("{} ({path})", error.message), ..error })?;
    connection.busy_timeout(others_within).map_err(|error| storage(&error))?;
    Ok(connection)
}

/// An in-memory database, gone with its connection.
pub(super) fn open_memory() -> Result<Connection, RecordsError> {
    let mut connection = Connection::open_in_memory().map_err(|error| storage(&error))?;
    schema::prepare(&mut connection)?;
    Ok(connection)
}

fn set_up(connection: &mut Connection) -> Result<(), RecordsError> {
    connection.busy_timeout(WRITE_WITHIN).map_err(|error| storage(&error))?;
    // Another program may have set the file to WAL, which later connections inherit.
    let journal: String = connection
        .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))
        .map_err(|error| storage(&error))?;
    if journal != "delete" {
        return Err(wrong(format!("the journal of the file is {journal} and cannot be set to delete")));
    }
    connection.execute_batch(DURABLE).map_err(|error| storage(&error))?;
    schema::prepare(connection)
}

fn wrong(message: String) -> RecordsError {
    RecordsError { fault: RecordsFault::Storage, retry: Retry::Useless, message }
}
