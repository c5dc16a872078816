//! Rewrites a file without the pages that purged jobs have left, for files that cannot give them back while jobs run.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::storage;
use super::file;
use crate::EngineError;

/// A file that no process works on, to be rewritten. It is kept from others meanwhile.
pub struct Compaction {
    path: PathBuf,
    connection: Connection,
    /// Last, so that it is given free after the connection is closed.
    _owner: File,
}

impl Compaction {
    /// Becomes the owner of a file. Fails if another process is, and names it.
    pub fn open(path: &Path) -> Result<Self, EngineError> {
        let owner = file::own(path)?;
        let connection = file::open_writer(path)?;
        let compaction = Self { path: path.to_owned(), connection, _owner: owner };
        compaction.write_log_back()?;
        Ok(compaction)
    }

    /// What the file takes on the disk.
    pub fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// What of it is used. While it is rewritten, two copies are made: one beside it, and one in the folder for temporary files.
    pub fn used_bytes(&self) -> Result<u64, EngineError> {
        let pragma = |name: &str| {
            let value = self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
            value.map_err(|error| storage(&error))
        };
        Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
    }

    /// Rewrites the file: all of it, or on an error nothing.
    pub fn run(&self) -> Result<(), EngineError> {
        // The temporary copy may be too large for memory.
        let rewritten = self
            .connection
            .execute_batch("PRAGMA temp_store = FILE; PRAGMA auto_vacuum = INCREMENTAL; VACUUM;");
        rewritten.map_err(|error| storage(&error))?;
        self.write_log_back()
    }

    fn write_log_back(&self) -> Result<(), EngineError> {
        let written = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        written.map_err(|error| storage(&error))
    }
}
