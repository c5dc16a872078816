//! The current input, in a file: it survives a stack overflow or a killed process.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

pub(crate) struct Witness {
    file: File,
    path: PathBuf,
}

impl Witness {
    pub(crate) fn new(target: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tollway-fuzz-{target}-{}", std::process::id()));
        Ok(Self { file: File::create(&path)?, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the input before it is tried.
    pub(crate) fn see(&mut self, input: &[u8]) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(input)?;
        self.file.set_len(input.len() as u64)
    }

    /// Removes the file: the input passed.
    pub(crate) fn leave(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
