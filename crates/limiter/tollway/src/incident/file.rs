//! The file of incidents: one JSON object a line, appended by every process of the machine.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollway_config::private_file::open_private;

use super::Incident;

/// The most incidents in the file. When there are more, the oldest quarter is dropped.
pub const FILE_INCIDENTS_MAX: usize = 1_000;

/// The largest file: an incident with 64 recent grants takes about 14 KB.
const FILE_BYTES_MAX: usize = 8 << 20;

/// A file this large was not written by Tollway; it is neither read nor rewritten.
const READ_BYTES_MAX: usize = 2 * FILE_BYTES_MAX;

/// The pause before the lock is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How often the lock is tried: 2 s. Its holder writes for milliseconds, unless it was stopped.
const LOCK_TRIES: u32 = 100;

/// How every line begins, also an incomplete one.
const LINE_START: &[u8] = b"{\"id\":";

/// The file that keeps the incidents of all processes on this machine. Only its owner may read it: an incident has subjects and
/// a vendor's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentFile {
    path: PathBuf,
}

impl IncidentFile {
    /// The file at this path. It is created with the first incident.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All incidents in it, the oldest first; none if there is no file. Lines that are not incidents are skipped: a killed
    /// process may have left half of one.
    pub fn read(&self) -> io::Result<Vec<Incident>> {
        let content = match File::open(&self.path) {
            Ok(mut file) => self.content(&mut file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut incidents: Vec<Incident> =
            lines(&content).filter_map(|line| serde_json::from_slice(line).ok()).collect();
        incidents.sort_by_key(|incident| incident.at);
        Ok(incidents)
    }

    /// Appends incidents, and drops the oldest ones if there are too many. Blocks while another process writes.
    pub(super) fn append(&self, incidents: &[Arc<Incident>]) -> io::Result<()> {
        let mut text = Vec::new();
        for incident in incidents {
            serde_json::to_writer(&mut text, &**incident)?;
            text.push(b'\n');
        }
        if let Some(folder) = self.path.parent() {
            create_private_folder(folder)?;
        }
        let _lock = self.lock()?;
        let mut file = open_private(&self.path, OpenOptions::new().read(true).append(true).create(true))?;
        self.check(&mut file)?;
        if !ends_with_newline(&mut file)? {
            text.insert(0, b'\n');
        }
        file.write_all(&text)?;
        file.seek(SeekFrom::Start(0))?;
        let content = self.content(&mut file)?;
        if content.len() > FILE_BYTES_MAX || lines(&content).count() > FILE_INCIDENTS_MAX {
            self.rewrite(&content)?;
        }
        Ok(())
    }

    /// Held until the file is closed. It is a file of its own, because the other one is replaced.
    fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_private(&self.beside(".lock"), &mut options)?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another process has been writing to it for 2 s"))
    }

    /// Fails on a file of another kind: dropping its oldest lines would destroy it.
    fn check(&self, file: &mut File) -> io::Result<()> {
        let mut start = Vec::new();
        let length = u64::try_from(LINE_START.len()).unwrap_or(u64::MAX);
        file.take(length).read_to_end(&mut start)?;
        if LINE_START.starts_with(&start) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "it is another kind of file"))
    }

    fn content(&self, file: &mut File) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let limit = u64::try_from(READ_BYTES_MAX).unwrap_or(u64::MAX);
        file.take(limit).read_to_end(&mut content)?;
        if content.len() >= READ_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is too large to be a file of incidents",
            ));
        }
        Ok(content)
    }

    /// Keeps the newest three quarters, so that the next incidents only append.
    fn rewrite(&self, content: &[u8]) -> io::Result<()> {
        let all: Vec<&[u8]> = lines(content).collect();
        let mut bytes = 0_usize;
        let newest = all.iter().rev().take(FILE_INCIDENTS_MAX / 4 * 3).take_while(|line| {
            bytes = bytes.saturating_add(line.len()).saturating_add(1);
            bytes <= FILE_BYTES_MAX / 4 * 3
        });
        let kept = newest.count();
        let draft = self.beside(".tmp");
        // Removes what a killed process left there. It is never opened, because it could be a link.
        let _ = fs::remove_file(&draft);
        let mut file = open_private(&draft, OpenOptions::new().write(true).create_new(true))?;
        let mut text = all.get(all.len().saturating_sub(kept)..).unwrap_or_default().join(&b'\n');
        text.push(b'\n');
        file.write_all(&text)?;
        fs::rename(&draft, &self.path)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        path.into()
    }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|byte| *byte == b'\n').filter(|line| line.starts_with(LINE_START))
}

/// Whether it is empty or ends with a whole line.
fn ends_with_newline(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}
