//! Jobs in a SQLite file, for the processes of one machine.
//!
//! One thread writes and one reads. The process that opens the file owns it: a second one is refused. So the write-ahead
//! log has one writer, whatever version of SQLite others look into the file with.

mod calls;
mod clock;
mod compact;
mod error;
mod evidence;
pub(crate) mod file;
mod finish;
mod moving;
mod operate;
mod read;
mod read_only;
mod reader;
mod rows;
mod samples;
mod schema;
mod session;
mod space;
mod stage_move;
mod transitions;
mod trouble;
mod work;
mod writer;

pub use self::compact::Compaction;
pub(crate) use self::file::owner_pid;
pub(crate) use self::read_only::SqliteReader;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::OpenFlags;
use rusqlite::backup::Backup;
use tokio::sync::watch;
use tollway_config::private_file::open_private;
use tollway_core::{Clock, Retry, Timestamp};

use self::clock::EngineClock;
use self::error::{Failure, storage};
use self::reader::Reader;
use self::session::Session;
use self::writer::{Durability, Writer};
use super::checks::refuse;
use super::request::reply;
use crate::{Capabilities, Engine, EngineAnswer, EngineError, EngineReply, EngineRequest};

/// Jobs in a SQLite file. Dropping it writes what is queued and gives the file free.
pub struct SqliteEngine {
    path: PathBuf,
    /// None: every call's time counts as it is.
    clock: Option<EngineClock>,
    /// None only while it is dropped.
    threads: Option<Threads>,
    hints: watch::Receiver<u64>,
    /// Keeps other processes out. Last, so that it is given free after the threads have ended.
    _owner: std::fs::File,
}

struct Threads {
    writer: Writer,
    reader: Reader,
    handles: [JoinHandle<()>; 2],
}

impl SqliteEngine {
    /// Opens or creates a file, and becomes its owner. Fails if another process owns it, and names that process.
    ///
    /// The time of a call counts as it is, even if it is earlier than that of a call before: for tests that bring their own.
    pub fn open(path: &Path) -> Result<Self, EngineError> {
        Self::open_with(path, None)
    }

    /// The same on this machine's clock: while the times of calls are behind the newest time in the file, time goes on from
    /// there by the machine's uptime.
    pub fn open_going_by(machine: Arc<dyn Clock>, path: &Path) -> Result<Self, EngineError> {
        Self::open_with(path, Some(EngineClock::new(machine)))
    }

    /// The time of the jobs in a file, for a look beside the process that works on them. `None`: there is no file yet.
    pub fn time_in(path: &Path, machine: Arc<dyn Clock>) -> Result<Option<Timestamp>, EngineError> {
        clock::time_in(path, machine)
    }

    fn open_with(path: &Path, clock: Option<EngineClock>) -> Result<Self, EngineError> {
        let owner = file::own(path)?;
        let (hint, hints) = watch::channel(0);
        let connection = file::open_writer(path)?;
        let read_only = file::open_reader(path)?;
        let kept = clock.as_ref().map(|clock| clock.resume(&connection)).transpose();
        let kept = kept.map_err(|error| storage(&error))?;
        let (writer, writing) = Writer::start(connection, kept, hint)?;
        let (reader, reading) = Reader::start(read_only)?;
        let threads = Some(Threads { writer, reader, handles: [reading, writing] });
        Ok(Self { path: path.to_owned(), clock, threads, hints, _owner: owner })
    }

    /// Keeps the file from growing beyond this many bytes. A job that does not fit is refused as on a full disk.
    pub fn limit_file(&self, bytes: u64) -> EngineAnswer<()> {
        self.write(Durability::Process, 0, move |session| {
            let page: u64 = session.connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
            let pages = (bytes / page.max(1)).clamp(1, u64::from(u32::MAX - 1));
            let set = format!("PRAGMA max_page_count = {pages}");
            Ok(session.connection.query_row(&set, [], |_| Ok(()))?)
        })
    }

    fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        bytes: usize,
        run: impl FnOnce(&mut Session<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> EngineAnswer<T> {
        match &self.threads {
            Some(threads) => threads.writer.ask(durability, bytes, run),
            None => refuse(EngineError::caller("the engine is closed")),
        }
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Result<T, Failure> + Send + 'static,
    ) -> EngineAnswer<T> {
        match &self.threads {
            Some(threads) => threads.reader.ask(read),
            None => refuse(EngineError::caller("the engine is closed")),
        }
    }
}

impl Drop for SqliteEngine {
    fn drop(&mut self) {
        if let Some(Threads { writer, reader, handles: [reading, writing] }) = self.threads.take() {
            // A thread that panicked has said so. The writer is last: the last connection writes the log back, and a
            // reader cannot.
            drop(reader);
            let _ = reading.join();
            drop(writer);
            let _ = writing.join();
        }
    }
}

impl Engine for SqliteEngine {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.as_ref().map_or(now, |clock| clock.time(now))
    }

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        Some(self.hints.clone())
    }

    fn call(&self, mut request: EngineRequest) -> EngineAnswer<EngineReply> {
        if let Some(now) = request.now_mut() {
            *now = self.time(*now);
        }
        match request {
            EngineRequest::Tidy => reply(self.tidy_up(), EngineReply::Tidy),
            EngineRequest::Backup { target } => {
                reply(copy_in_background(&self.path, target), EngineReply::Backup)
            }
            request if request.is_read() => self.read(move |connection| calls::read(connection, request)),
            request => self.write(calls::durability(&request), request.bytes(), move |session| {
                calls::write(session, request)
            }),
        }
    }
}

impl SqliteEngine {
    /// Gives the disk back what purged jobs have left, and writes the log back.
    fn tidy_up(&self) -> EngineAnswer<()> {
        let path = self.path.clone();
        let given_back = match &self.threads {
            Some(threads) => space::give_back(threads.writer.clone()),
            None => refuse(EngineError::caller("the engine is closed")),
        };
        Box::pin(async move {
            given_back.await?;
            let written = tokio::task::spawn_blocking(move || file::write_log_back(&path)).await;
            written.unwrap_or_else(|error| {
                Err(EngineError::storage(Retry::Safe, format!("the log was not written back: {error}")))
            })
        })
    }
}

fn copy_in_background(from: &Path, target: PathBuf) -> EngineAnswer<()> {
    let from = from.to_owned();
    Box::pin(async move {
        let copied = tokio::task::spawn_blocking(move || copy(&from, &target)).await;
        copied.unwrap_or_else(|error| {
            Err(EngineError::storage(Retry::Safe, format!("backup stopped: {error}")))
        })
    })
}

/// Copies a database in one step, which reads one snapshot and keeps no writer waiting.
fn copy(from: &Path, target: &Path) -> Result<(), EngineError> {
    let sql = |error: rusqlite::Error| storage(&error);
    if target.exists() {
        return Err(EngineError::caller(format!("{} exists: name another file", target.display())));
    }
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let of_file = |error: std::io::Error| {
        EngineError::storage(Retry::Safe, format!("{} cannot be written: {error}", target.display()))
    };
    // What a killed process left is never opened: it could be a link.
    let _ = std::fs::remove_file(&part);
    open_private(&part, OpenOptions::new().write(true).create_new(true)).map_err(of_file)?;
    let source = file::open_reader(from)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copied = file::connect(&part, flags).map_err(sql)?;
    Backup::new(&source, &mut copied).and_then(|backup| backup.step(-1)).map_err(sql)?;
    copied.close().map_err(|(_, error)| storage(&error))?;
    std::fs::File::open(&part).and_then(|file| file.sync_all()).map_err(of_file)?;
    std::fs::rename(&part, target).map_err(of_file)
}
