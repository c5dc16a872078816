//! The lock beside a state file: who holds it may read and write the state.
//!
//! It is a file of its own, because compaction replaces the state file, and a lock on a replaced file locks nobody out.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::error::FileError;

/// The lock file. It holds nothing.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

/// Proof that the lock is held; dropping it lets go.
#[derive(Debug)]
pub(super) struct Held<'a>(&'a File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The lock also ends with the process, so that nobody waits for one that was killed.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Opens the lock file, or makes it.
    pub(super) fn open(path: PathBuf) -> Result<Self, FileError> {
        let file = open_private(&path)?;
        Ok(Self { path, file })
    }

    /// Waits for the lock, for as long as somebody else holds it.
    pub(super) fn hold(&mut self) -> Result<Held<'_>, FileError> {
        loop {
            wait_for(&self.file).map_err(FileError::doing("lock", &self.path))?;
            if self.is_the_one_at_its_path()? {
                return Ok(Held(&self.file));
            }
            // Somebody removed the lock file. Others lock the new one, so this one is worth nothing.
            self.file = open_private(&self.path)?;
        }
    }

    fn is_the_one_at_its_path(&self) -> Result<bool, FileError> {
        let own = self.file.metadata().map_err(FileError::doing("look at", &self.path))?;
        match self.path.metadata() {
            Ok(there) => Ok(identity(&there) == identity(&own)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(FileError::doing("look at", &self.path)(error)),
        }
    }
}

fn wait_for(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn open_private(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    private(&mut options).open(path).map_err(FileError::doing("open", path))
}

/// Only the owner may read what these options create: it names subjects.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

/// Elsewhere the directory says who may read.
#[cfg(not(unix))]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Which file this is, whatever its name. Nobody else can have it while the file is open.
#[cfg(unix)]
pub(super) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

/// Elsewhere it is not known.
#[cfg(not(unix))]
pub(super) fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}
