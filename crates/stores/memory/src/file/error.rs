//! Errors of a state file, and what to do about them.

use std::io;
use std::path::{Path, PathBuf};

use tollway_core::{Fault, Retry, StoreError};

use super::bounds::{FILE_ACCOUNTS_MAX, FILE_BYTES_MAX, RECORD_BYTES_MAX};
use super::record::VERSION;

/// Why a state file cannot be used. The file is left unchanged in every case.
#[derive(thiserror::Error)]
pub enum FileError {
    /// The path is a directory.
    #[error("{} is a directory; name a file in it, as in file:{}", .0.display(), .0.join("limits").display())]
    Directory(PathBuf),
    /// The path is a pipe or a device, or has no file name.
    #[error("{} cannot be a state file: it is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// This user has no permission.
    #[error("no permission to {doing} {}; run as its owner, or name another file", .path.display())]
    Denied {
        /// The action that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file is not a state file.
    #[error("{} is not a Tollway state file and was left as it is; name another file", .0.display())]
    NotOurs(PathBuf),
    /// A file of another release.
    #[error(
        "{} has format version {version}, this program knows {VERSION}; run the release that wrote it, \
         or move the file away to start with unused limits", .path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version in its header.
        version: u64,
    },
    /// A record is damaged and good ones follow it, so it is not an interrupted write.
    #[error(
        "{} is damaged in line {line} and was left as it is; restore it from a copy, or move it away to start \
         with unused limits", .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the damaged line, from 1.
        line: u64,
    },
    /// A record has a valid checksum, but this release cannot read it.
    #[error(
        "line {line} of {} is intact but unreadable ({reason}); run the release that wrote it, or move the \
         file away to start with unused limits", .path.display()
    )]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// Why it cannot be read.
        reason: String,
    },
    /// Above [`FILE_BYTES_MAX`], or would be.
    #[error(
        "{} would be larger than {FILE_BYTES_MAX} bytes; count for fewer subjects, or use a store that scales",
        .0.display()
    )]
    TooLarge(PathBuf),
    /// Above [`FILE_ACCOUNTS_MAX`].
    #[error(
        "{} keeps {FILE_ACCOUNTS_MAX} subjects that are in use and has no room for a new one; count for fewer \
         subjects, or use a store that scales", .0.display()
    )]
    Full(PathBuf),
    /// Above [`RECORD_BYTES_MAX`].
    #[error("a change of {bytes} bytes is larger than the {RECORD_BYTES_MAX} that {} takes at once", .path.display())]
    RecordTooLarge {
        /// The file.
        path: PathBuf,
        /// The size of the change.
        bytes: usize,
    },
    /// An I/O error.
    #[error("could not {doing} {}: {source}", .path.display())]
    Io {
        /// The action that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

tollway_core::debug_as_display!(FileError);

impl FileError {
    /// Maps an I/O error to this error; for `map_err`.
    pub(super) fn doing(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { doing, path },
            io::ErrorKind::IsADirectory => Self::Directory(path),
            _ => Self::Io { doing, path, source },
        }
    }

    /// The answer to operations. None of them was applied: they take effect only once written.
    pub(super) fn answer(&self) -> StoreError {
        let retry = if matches!(self, Self::Io { .. }) { Retry::Safe } else { Retry::Useless };
        // The accounts already in the file still work.
        let of_account = matches!(self, Self::Full(_) | Self::RecordTooLarge { .. });
        let fault = if of_account { Fault::Account } else { Fault::Store };
        StoreError { fault, retry, message: self.to_string() }
    }
}
