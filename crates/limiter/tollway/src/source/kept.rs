//! The last reading of a source, kept in a file. Programs that end before they would poll again start from it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tollway_config::private_file::open_private;
use tollway_core::{Fingerprint, Name, Policy, Span, Timestamp};

use super::SourceStatus;

/// An amount takes less than a hundred bytes, so a larger file is not one of these.
const FILE_BYTES_MAX: usize = 64 << 10;

/// How much of a problem is kept.
const PROBLEM_CHARS_MAX: usize = 400;

/// A file that was not written for so long is removed: its source is no longer in use, or is read with other keys.
const UNUSED_MAX: Span = Span::from_secs(30 * 24 * 60 * 60);

/// A living holder of the lock reads the source, which takes half of this at most. One that has it for longer was stopped.
const LOCK_MAX: Span = Span::from_secs(6);

const HEADER: &str = "tollway amounts 1";

/// The file of one policy's source.
#[derive(Clone, Debug)]
pub(crate) struct KeptReading {
    path: PathBuf,
    /// Its second line: the policy and the source.
    identity: String,
}

/// The answer to a program that wants to read the source and save the reading.
pub(super) enum Lock {
    /// It may do so while it keeps this file.
    Held(File),
    /// Another program is doing so.
    Busy,
    /// Another program began long ago and does not go on.
    Stuck,
}

impl Lock {
    pub(super) fn held(self) -> Option<File> {
        match self {
            Self::Held(file) => Some(file),
            Self::Busy | Self::Stuck => None,
        }
    }
}

impl KeptReading {
    /// The file of this policy and source in the folder, which is created when it is first needed.
    pub(crate) fn new(folder: &Path, identity: String) -> Self {
        let name = format!("{:016x}", Fingerprint::new().text(&identity).finish());
        Self { path: folder.join(name), identity }
    }

    /// Puts the kept reading into a status; returns when it was made. None if there is none that can be used.
    pub(super) fn load(&self, status: &mut SourceStatus, policy: &Policy) -> Option<Timestamp> {
        let mut text = String::new();
        let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
        File::open(&self.path).ok()?.take(limit).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        if lines.next()? != HEADER || lines.next()? != self.identity {
            return None;
        }
        let (mut tried_at, mut read_at, mut problem, mut amounts) = (None, None, None, Vec::new());
        for line in lines {
            let (word, rest) = line.split_once(' ')?;
            match word {
                "tried" => tried_at = Some(Timestamp::from_micros(rest.parse().ok()?)),
                "read" => read_at = Some(Timestamp::from_micros(rest.parse().ok()?)),
                "problem" => problem = Some(rest.to_owned()),
                "amount" => {
                    let (amount, name) = rest.split_once(' ')?;
                    amounts.push((Name::new(name).ok()?, amount.parse().ok()?));
                }
                _ => return None,
            }
        }
        let fits = |name: &Name, amount: u64| {
            let mut limits = policy.limits().iter();
            limits.find(|limit| limit.name() == name).is_some_and(|limit| limit.with_amount(amount).is_ok())
        };
        amounts.retain(|(name, amount)| fits(name, *amount));
        (status.read_at, status.amounts, status.problem) = (read_at, amounts, problem);
        tried_at
    }

    /// Replaces the file, for the holder of the lock. Programs go on without it if that fails.
    pub(super) fn save(&self, status: &SourceStatus, tried_at: Timestamp) {
        let mut lines = vec![HEADER.to_owned(), self.identity.clone()];
        lines.push(format!("tried {}", tried_at.as_micros()));
        lines.extend(status.read_at.map(|at| format!("read {}", at.as_micros())));
        let on_one_line = |problem: &String| {
            let cut: String = problem.chars().take(PROBLEM_CHARS_MAX).collect();
            format!("problem {}", cut.replace(['\n', '\r'], " "))
        };
        lines.extend(status.problem.as_ref().map(on_one_line));
        lines.extend(status.amounts.iter().map(|(name, amount)| format!("amount {amount} {name}")));
        lines.push(String::new());
        if !self.path.exists() {
            self.remove_unused(tried_at);
        }
        if let Err(error) = self.replace(&lines.join("\n")) {
            tracing::debug!(%error, path = %self.path.display(), "the amounts of a limit source are not kept");
        }
    }

    /// Requests the lock of the program that reads the source and saves the reading.
    pub(super) fn try_lock(&self, now: Timestamp) -> io::Result<Lock> {
        if let Some(folder) = self.path.parent() {
            create_private_folder(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_private(&self.path.with_extension("lock"), &mut options)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_modified(UNIX_EPOCH + Duration::from_micros(now.as_micros()))?;
                Ok(Lock::Held(file))
            }
            Err(TryLockError::WouldBlock) => {
                let held_since = modified(&file.metadata()?)?;
                let living = held_since <= now && now < held_since.plus(LOCK_MAX);
                Ok(if living { Lock::Busy } else { Lock::Stuck })
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        if text.len() >= FILE_BYTES_MAX {
            return Err(io::Error::other("too large"));
        }
        let draft = self.path.with_extension("tmp");
        // Removes what a killed process left there. It is never opened, because it could be a link.
        let _ = fs::remove_file(&draft);
        let mut file = open_private(&draft, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&draft, &self.path)
    }

    /// Removes the files of sources that are no longer in use, so that keys which change every hour do not fill the folder.
    fn remove_unused(&self, now: Timestamp) {
        let Some(files) = self.path.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return };
        for file in files.flatten() {
            let written = file.metadata().and_then(|metadata| modified(&metadata));
            if written.is_ok_and(|written| written.plus(UNUSED_MAX) < now) {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

fn modified(metadata: &fs::Metadata) -> io::Result<Timestamp> {
    let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX)))
}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}
