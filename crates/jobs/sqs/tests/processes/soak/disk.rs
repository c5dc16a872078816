//! A disk that can be filled.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::lab::Process;
use crate::outages::limit_files;

/// The folder of a small file system, which `scripts/soak` mounts if it may.
const SMALL: &str = "TOLLWAY_SOAK_DISK";

/// Where the files of a pipeline are.
pub(super) enum Disk {
    /// A small file system, which other files fill.
    Small(PathBuf),
    /// A folder of a large one: the operating system lets no file of a process grow instead.
    Folder(PathBuf),
}

impl Disk {
    pub(super) fn new(folder: PathBuf) -> Self {
        match std::env::var_os(SMALL) {
            Some(small) => Self::Small(small.into()),
            None => Self::Folder(folder),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Small(folder) | Self::Folder(folder) => folder,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Small(_) => "a small file system that is filled",
            Self::Folder(_) => "a limit of file sizes, because no file system could be mounted",
        }
    }

    /// Leaves no room, neither for these processes.
    pub(super) fn fill(&self, processes: &[Process<'_>]) {
        match self {
            Self::Small(folder) => fill(&ballast(folder)),
            Self::Folder(folder) => {
                let log = fs::metadata(folder.join("jobs.db-wal")).map_or(0, |file| file.len());
                processes.iter().for_each(|process| limit_files(process, Some(log)));
            }
        }
    }

    pub(super) fn free(&self, processes: &[Process<'_>]) {
        match self {
            Self::Small(folder) => fs::remove_file(ballast(folder)).unwrap(),
            Self::Folder(_) => processes.iter().for_each(|process| limit_files(process, None)),
        }
    }
}

fn ballast(folder: &Path) -> PathBuf {
    folder.join("ballast")
}

/// Writes until nothing fits, first in large pieces, then in pages.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for piece in [vec![1; 1 << 20], vec![1; 4 << 10]] {
        loop {
            match file.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
}
