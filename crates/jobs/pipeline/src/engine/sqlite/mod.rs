//! Jobs in a SQLite file, for the processes of one machine.
//!
//! One thread writes and one reads. The process that opens the file owns it: a second one is refused. So the write-ahead
//! log has one writer, whatever version of SQLite others look into the file with.

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
use tollway_core::{Clock, Name, Retry, Span, Timestamp};

use self::clock::EngineClock;
use self::error::{Failure, storage};
use self::reader::Reader;
use self::session::Session;
use self::writer::{Durability, Writer};
use super::administration::{
    Administration, Change, Changed, Edit, Edited, Filter, JobResult, Page, Sample, StageChange, StageCounts,
    StageMove, StageSettings,
};
use super::checks::{check, check_stages, refuse, within};
use super::error::EngineError;
use super::moving::{MovedJob, check_import};
use super::{
    Capabilities, Claim, ClaimRequest, Claimed, Conclusion, Engine, EngineAnswer, Enqueued, Finished, Peek,
};
use crate::bounds::{BATCH_BYTES_MAX, BATCH_MAX, JOB_BYTES_MAX, PAGE_MAX};
use crate::job::attempt::Evidence;
use crate::job::{Job, JobId, NewJob};

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
        capabilities()
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.as_ref().map_or(now, |clock| clock.time(now))
    }

    fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        let now = self.time(now);
        let bytes = jobs.iter().map(NewJob::bytes).sum();
        match within("jobs", jobs.len(), BATCH_MAX).and_then(|()| within("bytes", bytes, BATCH_BYTES_MAX)) {
            Ok(()) => {
                self.write(Durability::Machine, bytes, move |session| work::enqueue(session, &jobs, now))
            }
            Err(error) => refuse(error),
        }
    }

    fn peek(&self, stage: &Name, now: Timestamp) -> EngineAnswer<Peek> {
        let stage = stage.clone();
        let now = self.time(now);
        self.write(Durability::Process, 0, move |session| work::peek(session, &stage, now))
    }

    fn claim(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        let now = self.time(now);
        match within("jobs", request.count, BATCH_MAX) {
            Ok(()) => self.write(Durability::Process, 0, move |session| work::claim(session, &request, now)),
            Err(error) => refuse(error),
        }
    }

    fn renew(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        let now = self.time(now);
        match within("claims", claims.len(), BATCH_MAX) {
            Ok(()) => self
                .write(Durability::Process, 0, move |session| work::renew(session, &claims, visibility, now)),
            Err(error) => refuse(error),
        }
    }

    fn finish(&self, claim: Claim, conclusion: Conclusion, now: Timestamp) -> EngineAnswer<Finished> {
        let now = self.time(now);
        match check(&conclusion) {
            Ok(bytes) => self.write(Durability::Machine, bytes, move |session| {
                finish::finish(session, &claim, conclusion, now)
            }),
            Err(error) => refuse(error),
        }
    }

    fn release(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        let now = self.time(now);
        match within("claims", claims.len(), BATCH_MAX) {
            Ok(()) => self.write(Durability::Machine, 0, move |session| work::release(session, &claims, now)),
            Err(error) => refuse(error),
        }
    }

    fn abandon(&self, worker: Option<&str>, now: Timestamp) -> EngineAnswer<u64> {
        let worker = worker.map(str::to_owned);
        let now = self.time(now);
        self.write(Durability::Process, 0, move |session| work::abandon(session, worker.as_deref(), now))
    }

    fn tidy(&self) -> EngineAnswer<()> {
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

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        Some(self.hints.clone())
    }
}

impl Administration for SqliteEngine {
    fn counts(&self) -> EngineAnswer<Vec<StageCounts>> {
        self.read(read::counts)
    }

    fn group_counts(&self, group: &str) -> EngineAnswer<Vec<StageCounts>> {
        let group = group.to_owned();
        self.read(move |connection| read::group_counts(connection, &group))
    }

    fn scan(&self, filter: Filter, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<Job>> {
        self.read(move |connection| read::scan(connection, &filter, after, limit.min(PAGE_MAX)))
    }

    fn matching(&self, filter: Filter) -> EngineAnswer<u64> {
        self.read(move |connection| read::matching(connection, &filter))
    }

    fn evidence(&self, job: JobId) -> EngineAnswer<Vec<Evidence>> {
        self.read(move |connection| evidence::list(connection, job))
    }

    fn results(&self, stage: &Name, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<JobResult>> {
        let stage = stage.clone();
        self.read(move |connection| read::results(connection, &stage, after, limit.min(PAGE_MAX)))
    }

    fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> EngineAnswer<Edited> {
        let now = self.time(now);
        let bytes = edit.data.as_ref().map_or(0, String::len);
        self.write(Durability::Machine, bytes, move |session| operate::edit(session, job, &edit, now))
    }

    fn change(
        &self,
        filter: Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Changed> {
        let now = self.time(now);
        self.write(Durability::Machine, 0, move |session| {
            operate::change(session, &filter, change, after, limit.min(PAGE_MAX), now)
        })
    }

    fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<StageMove> {
        let (stages, limit) = ((from.clone(), to.clone()), limit.min(PAGE_MAX));
        match check_stages(from, to) {
            Ok(()) => self.write(Durability::Machine, 0, move |session| {
                stage_move::move_to_stage(session, &stages.0, &stages.1, after, limit, now)
            }),
            Err(error) => refuse(error),
        }
    }

    fn stages(&self) -> EngineAnswer<Vec<StageSettings>> {
        self.read(read::stages)
    }

    fn set_stage(&self, stage: &Name, change: StageChange, now: Timestamp) -> EngineAnswer<()> {
        let stage = stage.clone();
        let now = self.time(now);
        self.write(Durability::Machine, 0, move |session| operate::set_stage(session, &stage, &change, now))
    }

    fn purge(&self, stage: &Name, before: Timestamp, limit: usize) -> EngineAnswer<u64> {
        let stage = stage.clone();
        self.write(Durability::Machine, 0, move |session| {
            operate::purge(session, &stage, before, limit.min(PAGE_MAX))
        })
    }

    fn record(&self, now: Timestamp) -> EngineAnswer<()> {
        let now = self.time(now);
        self.write(Durability::Process, 0, move |session| samples::record(session, now))
    }

    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>> {
        self.read(move |connection| samples::samples(connection, since))
    }

    fn withdraw(
        &self,
        filter: Filter,
        to: &str,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Page<Job>> {
        let to = to.to_owned();
        let now = self.time(now);
        self.write(Durability::Machine, 0, move |session| {
            moving::withdraw(session, &filter, &to, after, limit.min(PAGE_MAX), now)
        })
    }

    fn confirm_moved(&self, jobs: Vec<JobId>, to: &str) -> EngineAnswer<u64> {
        let to = to.to_owned();
        match within("jobs", jobs.len(), BATCH_MAX) {
            Ok(()) => self.write(Durability::Machine, 0, move |session| moving::confirm(session, &jobs, &to)),
            Err(error) => refuse(error),
        }
    }

    fn import(&self, jobs: Vec<MovedJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        let now = self.time(now);
        match check_import(&jobs) {
            Ok(bytes) => {
                self.write(Durability::Machine, bytes, move |session| moving::import(session, jobs, now))
            }
            Err(error) => refuse(error),
        }
    }

    fn backup(&self, target: &Path) -> EngineAnswer<()> {
        copy_in_background(&self.path, target)
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        atomic_hand_off: true,
        exact_counts: true,
        delivers_once: true,
        claim_by_cost: true,
        ordered: true,
        inspectable: true,
        groups: true,
        delay_max: None,
        retention_max: None,
        job_bytes_max: JOB_BYTES_MAX,
    }
}

fn copy_in_background(from: &Path, target: &Path) -> EngineAnswer<()> {
    let (from, target) = (from.to_owned(), target.to_owned());
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
