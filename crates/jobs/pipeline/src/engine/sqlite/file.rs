//! Opens the file: its owner, its connections and their settings.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tollway_config::private_file::{create_private, in_real_folder, open_private};
use tollway_core::Retry;

use super::error::storage;
use super::schema;
use crate::{EngineError, EngineFault};

/// How long to wait for another program that looks into the file, such as the `sqlite3` shell.
const OTHERS_WITHIN: Duration = Duration::from_secs(5);

/// What the writer needs. The cache holds the upper pages of every index of a million jobs; the log is written back after
/// 32 MiB, and cut to that size.
const WRITER: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA trusted_schema = OFF;
    PRAGMA cache_size = -49152;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 8192;
    PRAGMA journal_size_limit = 33554432;";

const READER: &str = "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cache_size = -8192;";

/// Opens or creates the file with its tables, for its owner.
pub(super) fn open_writer(path: &Path) -> Result<Connection, EngineError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    set_up_writer(path, flags).map_err(|error| in_file(path, error))
}

/// Opens a second connection that cannot write.
pub(super) fn open_reader(path: &Path) -> Result<Connection, EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = connect(path, flags)?;
        connection.busy_timeout(OTHERS_WITHIN)?;
        connection.execute_batch(READER)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    open().map_err(|error| in_file(path, storage(&error)))
}

/// Writes the write-ahead log back into the file as far as readers allow, on a connection of its own: neither the writer nor
/// readers wait for it.
pub(super) fn write_log_back(path: &Path) -> Result<(), EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let write = || {
        let connection = connect(path, flags)?;
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    };
    write().map_err(|error| in_file(path, storage(&error)))
}

/// Opens a connection, not through a symbolic link in the last part of the path.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(in_real_folder(path), flags | OpenFlags::SQLITE_OPEN_NOFOLLOW)?;
    // Plans do not depend on parameters. Otherwise SQLite prepares a statement with `LIMIT ?` or a join anew for each of its
    // values: that was four tenths of all instructions.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn set_up_writer(path: &Path, flags: OpenFlags) -> Result<Connection, EngineError> {
    let sql = |error: rusqlite::Error| storage(&error);
    // SQLite gives the write-ahead log the mode of the file. A folder that is missing is SQLite's to report.
    let _ = create_private(path);
    let mut connection = connect(path, flags).map_err(sql)?;
    connection.busy_timeout(OTHERS_WITHIN).map_err(sql)?;
    // SQLite opens it all the same, and would refuse the first job.
    if connection.is_readonly("main").map_err(sql)? {
        let message =
            "the file is read-only; let this user write the file and its folder, nothing was changed";
        return Err(EngineError::storage(Retry::Useless, message));
    }
    // Before the first page is written: an older file needs `compact`.
    let pages: u64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(sql)?;
    if pages == 0 {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(sql)?;
    }
    let journal: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(sql)?;
    if journal != "wal" {
        let message =
            format!("the journal is {journal} and cannot be a write-ahead log; use a local file system");
        return Err(EngineError::storage(Retry::Useless, message));
    }
    connection.execute_batch(WRITER).map_err(sql)?;
    schema::prepare(&mut connection)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Makes this process the owner of the file until the lock is dropped, also by the death of the process.
pub(super) fn own(path: &Path) -> Result<File, EngineError> {
    let lock = owner_path(path);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = open_private(&lock, &mut options).map_err(|error| {
        let message = format!(
            "{} cannot be opened: {error}; make its folder, and let this user write there",
            lock.display()
        );
        EngineError::storage(Retry::Useless, message)
    })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(owned(path)),
        Err(TryLockError::Error(error)) => {
            let message = format!("{} cannot be locked: {error}; use a local file system", lock.display());
            return Err(EngineError::storage(Retry::Useless, message));
        }
    }
    // The lock counts, and the pid is only for the message: a full disk must not keep the owner out.
    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    Ok(file)
}

/// The error for a lock whose holder never was an owner, or is none any more: it must be named, as it may never end.
pub(crate) fn foreign_lock(path: &Path) -> Option<EngineError> {
    let lock = owner_path(path);
    let pid = std::fs::read_to_string(&lock).unwrap_or_default();
    let alive = Path::new("/proc").join(pid.trim());
    if !Path::new("/proc/self").exists() || !pid.trim().is_empty() && alive.exists() {
        return None;
    }
    let lock = lock.display();
    let message = format!("another program has locked {lock}: find it with `lsof {lock}`, and end it");
    Some(EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message })
}

fn owned(path: &Path) -> EngineError {
    let owner = owner_pid(path).map_or("another process".to_owned(), |pid| format!("process {pid}"));
    let message = format!("{} belongs to {owner}, which is running: stop it first", path.display());
    EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message }
}

/// The id of the process that owns the file, or was the last to do so.
pub(crate) fn owner_pid(path: &Path) -> Option<u32> {
    std::fs::read_to_string(owner_path(path)).ok()?.trim().parse().ok()
}

/// `pdf.db-owner` beside `pdf.db`.
fn owner_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-owner");
    PathBuf::from(name)
}

fn in_file(path: &Path, error: EngineError) -> EngineError {
    EngineError { message: format!("{} ({})", error.message, path.display()), ..error }
}
