//! The bytes of the state file: reads what other processes appended, appends, and replaces the whole file.
//!
//! The caller must hold the lock.

use std::cmp::Ordering;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::bounds::{FILE_BYTES_MAX, RECORD_BYTES_MAX};
use super::error::FileError;
use super::lock::{identity, open, private};
use super::record::{FileRecord, HEADER_BYTES_MAX, RecordError, VERSION, header, version_in};

/// An open state file, and how far this process has read it.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    identity: Option<(u64, u64)>,
    /// This process has read or written everything before this offset.
    end: u64,
    /// The number of text lines before it.
    lines: u64,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// After a whole record.
    Whole,
    /// With a partial record at the end of the file: an interrupted write.
    Torn,
}

impl Log {
    /// Opens the file and reads its header; `None` if the file is missing or empty.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, FileError> {
        let Some(metadata) = metadata_of(path)? else { return Ok(None) };
        if metadata.len() == 0 {
            return Ok(None);
        }
        let file = open(path, OpenOptions::new().read(true).write(true))?;
        let mut first_line = Vec::new();
        let read = BufReader::new((&file).take(HEADER_BYTES_MAX)).read_until(b'\n', &mut first_line);
        let end = read.map_err(FileError::doing("read", path))?;
        match version_in(&first_line) {
            Some(VERSION) => {
                let path = path.to_owned();
                Ok(Some(Self { path, file, identity: identity(&metadata), end: widen(end), lines: 1 }))
            }
            Some(version) => Err(FileError::OtherVersion { path: path.to_owned(), version }),
            None => Err(FileError::NotOurs(path.to_owned())),
        }
    }

    /// Creates the file, without records.
    pub(super) fn create(path: &Path) -> Result<Self, FileError> {
        replace_atomically(path, None, std::iter::empty())
    }

    /// Writes a new file with these records and atomically replaces this one with it.
    pub(super) fn replace(
        &self,
        records: impl Iterator<Item = serde_json::Result<String>>,
    ) -> Result<Self, FileError> {
        // Keeps the permissions: the owner may have shared the file with a group.
        let metadata = self.file.metadata().map_err(FileError::doing("read the metadata of", &self.path))?;
        replace_atomically(&self.path, Some(metadata.permissions()), records)
    }

    /// How the file has changed since this process last held the lock.
    pub(super) fn change(&self) -> Result<FileChange, FileError> {
        let Some(metadata) = metadata_of(&self.path)? else { return Ok(FileChange::Replaced) };
        let same = self.identity.is_some() && identity(&metadata) == self.identity;
        Ok(match metadata.len().cmp(&self.end) {
            Ordering::Equal if same => FileChange::None,
            Ordering::Greater if same => FileChange::Appended,
            _ => FileChange::Replaced,
        })
    }

    /// Reads every record after the last read.
    pub(super) fn read(
        &mut self,
        mut load: impl FnMut(FileRecord) -> Result<(), serde_json::Error>,
    ) -> Result<Tail, FileError> {
        self.file.seek(SeekFrom::Start(self.end)).map_err(FileError::doing("read", &self.path))?;
        let mut reader = BufReader::new(&self.file);
        let mut text = Vec::new();
        loop {
            let size = read_line(&mut reader, &mut text, &self.path)?;
            if size == 0 {
                return Ok(Tail::Whole);
            }
            let line = self.lines.saturating_add(1);
            let path = || self.path.clone();
            match FileRecord::decode(&text) {
                Ok(record) => load(record).map_err(|error| FileError::NotUnderstood {
                    path: path(),
                    line,
                    reason: error.to_string(),
                })?,
                Err(RecordError::NotUnderstood(reason)) => {
                    return Err(FileError::NotUnderstood { path: path(), line, reason });
                }
                Err(RecordError::Damaged) if records_follow(&mut reader, &mut text, &self.path)? => {
                    return Err(FileError::Damaged { path: path(), line });
                }
                Err(RecordError::Damaged) => return Ok(Tail::Torn),
            }
            self.lines = line;
            self.end = self.end.saturating_add(widen(size));
        }
    }

    /// Appends a record. After a failure the file is unchanged, or has a torn tail that the next lock holder cuts off.
    pub(super) fn append(&mut self, record: &str) -> Result<(), FileError> {
        let start = self.file.seek(SeekFrom::Start(self.end));
        if let Err(error) = start.and_then(|_| self.file.write_all(record.as_bytes())) {
            let _ = self.cut_torn_tail();
            return Err(FileError::doing("write", &self.path)(error));
        }
        self.end = self.end.saturating_add(widen(record.len()));
        self.lines = self.lines.saturating_add(1);
        Ok(())
    }

    /// Truncates the file after the last complete record.
    pub(super) fn cut_torn_tail(&self) -> Result<(), FileError> {
        self.file.set_len(self.end).map_err(FileError::doing("cut the torn end off", &self.path))
    }

    /// How large the file is.
    pub(super) fn size(&self) -> u64 {
        self.end
    }
}

/// How a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    /// Not at all.
    None,
    /// Other processes have appended to it.
    Appended,
    /// It is another file, or shorter than before.
    Replaced,
}

/// The path of a file beside the state file.
pub(super) fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The metadata of the file at the path, if it can be a state file.
fn metadata_of(path: &Path) -> Result<Option<Metadata>, FileError> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::doing("read the metadata of", path)(error)),
        Ok(metadata) if metadata.is_dir() => Err(FileError::Directory(path.to_owned())),
        Ok(metadata) if !metadata.is_file() => Err(FileError::NotAFile(path.to_owned())),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => Err(FileError::TooLarge(path.to_owned())),
        Ok(metadata) => Ok(Some(metadata)),
    }
}

fn replace_atomically(
    path: &Path,
    permissions: Option<Permissions>,
    records: impl Iterator<Item = serde_json::Result<String>>,
) -> Result<Log, FileError> {
    let draft = sibling(path, ".tmp");
    let made = write_draft(&draft, permissions, records).and_then(|log| {
        fs::rename(&draft, path).map_err(FileError::doing("replace", path))?;
        Ok(Log { path: path.to_owned(), ..log })
    });
    if made.is_err() {
        let _ = fs::remove_file(&draft);
    }
    made
}

fn write_draft(
    draft: &Path,
    permissions: Option<Permissions>,
    records: impl Iterator<Item = serde_json::Result<String>>,
) -> Result<Log, FileError> {
    // Removes what a killed process left there. It is never opened, because it could be a link.
    let _ = fs::remove_file(draft);
    let mut options = OpenOptions::new();
    let opened = private(options.read(true).write(true).create_new(true)).open(draft);
    let file = opened.map_err(FileError::doing("create", draft))?;
    let identity = identity(&file.metadata().map_err(FileError::doing("read the metadata of", draft))?);
    let failed = || FileError::doing("write", draft);
    if let Some(permissions) = permissions {
        file.set_permissions(permissions).map_err(failed())?;
    }
    let mut writer = BufWriter::new(&file);
    let (mut end, mut lines) = (0u64, 0u64);
    for text in std::iter::once(Ok(header())).chain(records) {
        let text = text.map_err(|error| failed()(error.into()))?;
        writer.write_all(text.as_bytes()).map_err(failed())?;
        end = end.saturating_add(widen(text.len()));
        lines = lines.saturating_add(1);
        if end > FILE_BYTES_MAX {
            return Err(FileError::TooLarge(draft.to_owned()));
        }
    }
    writer.flush().map_err(failed())?;
    drop(writer);
    // The only wait for the disk: otherwise a power failure could keep the new name and lose the content.
    file.sync_data().map_err(failed())?;
    Ok(Log { path: draft.to_owned(), file, identity, end, lines })
}

/// Whether a complete record follows.
fn records_follow(reader: &mut impl BufRead, text: &mut Vec<u8>, path: &Path) -> Result<bool, FileError> {
    while read_line(reader, text, path)? > 0 {
        if !matches!(FileRecord::decode(text), Err(RecordError::Damaged)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_line(reader: &mut impl BufRead, text: &mut Vec<u8>, path: &Path) -> Result<usize, FileError> {
    text.clear();
    let most = widen(RECORD_BYTES_MAX);
    reader.take(most).read_until(b'\n', text).map_err(FileError::doing("read", path))
}

fn widen(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
