//! A store in a file, for short commands and several processes on one machine.
//!
//! # How it works
//!
//! The file `PATH` is a log: a header, then one record per write, with a checksum. To decide, a process locks
//! `PATH.lock`, reads what other processes have appended, applies the operations, appends the changed accounts, and then
//! answers. Each store has one writer thread, which serves all waiting commands under one lock. A log that is much larger
//! than its live accounts need is compacted.
//!
//! # After a crash
//!
//! A killed process leaves at most one partial record, which the next lock holder cuts off. Its caller never got an
//! answer. A lost answer can lose units and never gains any.
//!
//! Takes do not wait for the disk, because the system keeps what a killed process wrote. After a power failure the file
//! can be some seconds old, or have a damaged end, which is cut off too. If grants must survive a power failure, use a
//! store on another machine.
//!
//! # Time
//!
//! The store's time is the machine's date, as long as that goes forward. If it is set back, the store's time goes on from the
//! newest time in the file by the machine's boot clock, whose reading is kept in the file ([`StateClock`]). The store's callers
//! start with the same time ([`Store::clock`]).
//!
//! # Limits
//!
//! The file must be on a local disk: locks on network disks are unreliable. A process that is stopped (not killed) while
//! it holds the lock blocks all others.

mod accounts;
mod bounds;
mod error;
mod lock;
mod log;
mod record;
mod state;
mod writer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use tollway_core::bounds::OPERATIONS_PER_BATCH_MAX;
use tollway_core::{
    AccountListAnswer, Answer, Clock, Fault, Name, Operation, Outcomes, Retry, Setting, SettingChange,
    Settings, SettingsAnswer, Store, StoreError, Timestamp,
};

use accounts::FileAccounts;
pub use bounds::{FILE_ACCOUNTS_MAX, FILE_BYTES_MAX, FILE_QUEUE_MAX, RECORD_BYTES_MAX};
pub use error::FileError;
use lock::Lock;
use log::Log;
use state::State;
use writer::{Writer, WriterCommand};

use crate::StateClock;

/// A store in a file that several processes on one machine share.
///
/// ```
/// use std::sync::Arc;
/// use tollway_memory::{FileStore, WallClock};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("limits");
/// let store = FileStore::open(&path, Arc::new(WallClock::default()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileStore {
    path: PathBuf,
    clock: Arc<StateClock>,
    queue: Option<SyncSender<WriterCommand>>,
    writer: Option<JoinHandle<()>>,
}

impl FileStore {
    /// Opens the file at `path`, or creates it and its directory, readable by its owner only.
    ///
    /// All processes that share the file should use the wall clock. It may be set back; the store's time does not go back.
    pub fn open(path: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, FileError> {
        let path = canonical_path(path.as_ref())?;
        let mut lock = Lock::open(log::sibling(&path, ".lock"))?;
        let mut state = State::new(path.clone());
        state.refresh(&lock.acquire()?)?;
        let clock = Arc::new(StateClock::new(clock));
        state.time(&clock);
        let (queue, commands) = sync_channel(FILE_QUEUE_MAX);
        let writer = Writer { lock, state, clock: clock.clone() };
        let thread = std::thread::Builder::new().name("tollway-file".to_owned());
        let writer = thread
            .spawn(move || writer.run(commands))
            .map_err(FileError::doing("start a writer for", &path))?;
        Ok(Self { path, clock, queue: Some(queue), writer: Some(writer) })
    }

    /// The time of the state in a file, without a change of the file. `None`: there is no file yet.
    pub fn time_in(path: &Path, machine: Arc<dyn Clock>) -> Result<Option<Timestamp>, FileError> {
        let Some(mut log) = Log::open(path)? else { return Ok(None) };
        let mut accounts = FileAccounts::default();
        log.read(|record| accounts.load(record))?;
        let clock = StateClock::new(machine);
        clock.resume(accounts.anchor(), accounts.newest());
        Ok(Some(clock.now().max(accounts.newest())))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn ask<T: Send + 'static>(
        &self,
        command: WriterCommand,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> SettingsAnswer<T> {
        match self.send(command) {
            Ok(()) => Box::pin(later(answer)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn send(&self, command: WriterCommand) -> Result<(), StoreError> {
        let Some(queue) = &self.queue else { return Err(stopped(Retry::Safe)) };
        queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => {
                let message =
                    format!("{FILE_QUEUE_MAX} commands are already queued for {}", self.path.display());
                StoreError { fault: Fault::Store, retry: Retry::Safe, message }
            }
            TrySendError::Disconnected(_) => stopped(Retry::Useless),
        })
    }
}

impl Store for FileStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if batch.is_empty() {
            return Answer::now(Ok(Outcomes::new()));
        }
        if batch.len() > OPERATIONS_PER_BATCH_MAX {
            return Answer::now(Err(batch_too_large(batch.len())));
        }
        let (reply, answer) = oneshot::channel();
        match self.send(WriterCommand::Apply(batch.to_vec(), reply)) {
            Ok(()) => Answer::Later(Box::pin(later(answer))),
            Err(error) => Answer::now(Err(error)),
        }
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }

    fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Option<AccountListAnswer> {
        let (reply, answer) = oneshot::channel();
        Some(self.ask(WriterCommand::Accounts(policy.cloned(), at_most, reply), answer))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.clock.clone())
    }
}

impl Settings for FileStore {
    fn settings(&self) -> SettingsAnswer<Vec<Setting>> {
        let (reply, answer) = oneshot::channel();
        self.ask(WriterCommand::Settings(reply), answer)
    }

    fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        let (reply, answer) = oneshot::channel();
        self.ask(WriterCommand::Change(change, reply), answer)
    }
}

impl Drop for FileStore {
    /// Finishes all accepted commands.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The canonical path: two names of a file must use the same lock, and compaction must not replace a link.
fn canonical_path(path: &Path) -> Result<PathBuf, FileError> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(FileError::doing("open", path)(error)),
        Ok(canonical) if canonical.is_dir() => return Err(FileError::Directory(canonical)),
        Ok(canonical) => return Ok(canonical),
    }
    let Some(name) = path.file_name() else { return Err(FileError::NotAFile(path.to_owned())) };
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory).map_err(FileError::doing("create the directory", directory))?;
    let directory = fs::canonicalize(directory).map_err(FileError::doing("open", directory))?;
    Ok(directory.join(name))
}

async fn later<T>(answer: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    answer.await.unwrap_or_else(|_| Err(stopped(Retry::Unclear)))
}

fn stopped(retry: Retry) -> StoreError {
    StoreError { fault: Fault::Store, retry, message: "the writer of the state file has stopped".to_owned() }
}

fn batch_too_large(count: usize) -> StoreError {
    let message = format!("{count} operations in one batch; at most {OPERATIONS_PER_BATCH_MAX} are allowed");
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}
