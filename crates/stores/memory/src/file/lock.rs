//! The lock file beside a state file. Its holder may read and write the state.
//!
//! It is a separate file, because compaction replaces the state file: a lock on a replaced file excludes no process.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::error::FileError;

const REFUSED_LINK: &str =
    "it is a symbolic link, and no file is written through one; name the file that it points to";

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

/// Opens or creates a file that only its owner may read, for reading and writing.
fn open_private(path: &Path) -> Result<File, FileError> {
    open(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

/// Opens a file, not through a symbolic link in the last part of its path: another user could have made it. The system refuses
/// it; a look before opening could be too early.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<File, FileError> {
    private(options).open(path).map_err(|error| match is_link(&error) {
        true => FileError::doing("open", path)(io::Error::new(io::ErrorKind::InvalidInput, REFUSED_LINK)),
        false => FileError::doing("open", path)(error),
    })
}

/// Only the owner may read the created file: it contains subjects.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;

    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    options.mode(0o600).custom_flags(no_link)
}

/// Elsewhere the permissions of the directory apply.
#[cfg(not(unix))]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Whether the system refused a link in the last part of a path.
#[cfg(unix)]
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_link(_: &io::Error) -> bool {
    false
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
