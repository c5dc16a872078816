//! The log of a server, for the reader of a failed test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The file that a server's output goes to.
pub(super) struct Log(PathBuf);

impl Log {
    /// The log in this folder.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self(folder.join("output.log"))
    }

    /// The file to write to, after what is there.
    pub(super) fn open(&self) -> File {
        File::options().create(true).append(true).open(&self.0).expect("a log in a folder of our own")
    }

    /// How long it is.
    pub(super) fn length(&self) -> usize {
        fs::metadata(&self.0).map_or(0, |file| file.len() as usize)
    }

    /// The log after the first `skip` bytes.
    pub(super) fn text_after(&self, skip: usize) -> String {
        let bytes = fs::read(&self.0).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(skip..).unwrap_or_default()).into_owned()
    }
}
