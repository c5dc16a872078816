//! The lock file beside a state file. Its holder may read and write the state.
//!
//! It is a separate file, because compaction replaces the state file: a lock on a replaced file excludes no process.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::error::FileError;

/// The lock file. It is empty.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

/// Proof that the lock is held. Dropping it unlocks.
#[derive(Debug)]
pub(super) struct LockGuard<'a>(&'a File);

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        // A failure here is harmless: the system unlocks when the process ends.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Opens or creates the lock file.
    pub(super) fn open(path: PathBuf) -> Result<Self, FileError> {
        let file = open_private(&path)?;
        Ok(Self { path, file })
    }

    /// Waits until the lock is free, and locks it.
    pub(super) fn acquire(&mut self) -> Result<LockGuard<'_>, FileError> {
        loop {
            wait_for(&self.file).map_err(FileError::doing("lock", &self.path))?;
            if self.is_still_at_its_path()? {
                return Ok(LockGuard(&self.file));
            }
            // The lock file was removed. Other processes lock the new one, so this lock is useless.
            self.file = open_private(&self.path)?;
        }
    }

    fn is_still_at_its_path(&self) -> Result<bool, FileError> {
        let own = self.file.metadata().map_err(FileError::doing("read the metadata of", &self.path))?;
        match self.path.metadata() {
            Ok(there) => Ok(identity(&there) == identity(&own)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(FileError::doing("read the metadata of", &self.path)(error)),
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
    refuse_link(path)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    private(&mut options).open(path).map_err(FileError::doing("open", path))
}

/// No file is written through a symbolic link: another user could have made it.
pub(super) fn refuse_link(path: &Path) -> Result<(), FileError> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        let message =
            "it is a symbolic link, and no file is written through one; name the file that it points to";
        return Err(FileError::doing("open", path)(io::Error::new(io::ErrorKind::InvalidInput, message)));
    }
    Ok(())
}

/// Only the owner may read the created file: it contains subjects.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

/// Elsewhere the permissions of the directory apply.
#[cfg(not(unix))]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Device and inode: they identify the file whatever its name, while it is open.
#[cfg(unix)]
pub(super) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

/// Elsewhere files have no identity.
#[cfg(not(unix))]
pub(super) fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}
