//! What can be wrong with a state file, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use tollway_core::{Fault, Retry, StoreError};

use super::bounds::{FILE_BYTES_MAX, FILE_LINES_MAX, RECORD_BYTES_MAX};
use super::record::VERSION;

/// Why a state file cannot be used. Whatever is said here, the file was left as it was.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path leads to a directory.
    #[error("{} is a directory; name a file in it, as in file:{}", .0.display(), .0.join("limits").display())]
    Directory(PathBuf),
    /// The path leads to a pipe, a device, or nowhere.
    #[error("{} cannot be a state file: it is no regular file", .0.display())]
    NotAFile(PathBuf),
    /// This user may not.
    #[error("no permission to {doing} {}; run as its owner, or name another file", .path.display())]
    Denied {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
    },
    /// Somebody else's file.
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
        /// The version it says it has.
        version: u64,
    },
    /// A record is damaged and good ones follow it, so it was not a write that a crash cut short.
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
    /// A record is whole, but says something this program does not know.
    #[error(
        "line {line} of {} is whole but not understood ({reason}); run the release that wrote it, or move the \
         file away to start with unused limits", .path.display()
    )]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// What is not understood.
        reason: String,
    },
    /// Above [`FILE_BYTES_MAX`], or would be.
    #[error(
        "{} would be larger than {FILE_BYTES_MAX} bytes; count for fewer subjects, or use a store that scales",
        .0.display()
    )]
    TooLarge(PathBuf),
    /// Above [`FILE_LINES_MAX`].
    #[error(
        "{} keeps {FILE_LINES_MAX} subjects that are in use and has no room for a new one; count for fewer \
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
    /// The machine failed.
    #[error("could not {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the machine said.
        source: io::Error,
    },
}

impl FileError {
    /// Says what was tried when the machine said no; for `map_err`.
    pub(super) fn doing(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { doing, path },
            io::ErrorKind::IsADirectory => Self::Directory(path),
            _ => Self::Io { doing, path, source },
        }
    }

    /// As an answer to operations. None of them was applied: what is not in the file has not happened.
    pub(super) fn answer(&self) -> StoreError {
        let retry = if matches!(self, Self::Io { .. }) { Retry::Safe } else { Retry::Useless };
        // Those who are in go on.
        let of_line = matches!(self, Self::Full(_) | Self::RecordTooLarge { .. });
        let fault = if of_line { Fault::Account } else { Fault::Store };
        StoreError { fault, retry, message: self.to_string() }
    }
}
