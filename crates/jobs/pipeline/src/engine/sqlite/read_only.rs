//! The jobs of a file whose owner does not answer, for commands that only read.
//!
//! The write-ahead log lets a process read beside one that writes, and so beside one that was suspended in the middle of it.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use tollway_core::{Name, Span, Timestamp};

use super::reader::Reader;
use super::{capabilities, copy_in_background, evidence, file, read, samples, schema};
use crate::bounds::PAGE_MAX;
use crate::engine::checks::refuse;
use crate::*;

/// The jobs of a file, which other processes write. What would change them is refused with the reason why this process cannot.
pub(crate) struct SqliteReader {
    path: PathBuf,
    because: EngineError,
    /// None only while it is dropped.
    thread: Option<(Reader, JoinHandle<()>)>,
}

impl SqliteReader {
    /// Opens the file beside its owner. `because` answers every call that would change it, and this one if the file cannot be
    /// read.
    pub(crate) fn open(path: &Path, because: EngineError) -> Result<Self, EngineError> {
        let readable = file::open_reader(path).ok().filter(|file| schema::is_current(file).unwrap_or(false));
        let Some(connection) = readable else { return Err(because) };
        Ok(Self { path: path.to_owned(), because, thread: Some(Reader::start(connection)?) })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Result<T, super::Failure> + Send + 'static,
    ) -> EngineAnswer<T> {
        match &self.thread {
            Some((reader, _)) => reader.ask(read),
            None => self.refuse(),
        }
    }

    fn refuse<T: Send + 'static>(&self) -> EngineAnswer<T> {
        refuse(self.because.clone())
    }
}

impl Drop for SqliteReader {
    fn drop(&mut self) {
        if let Some((reader, thread)) = self.thread.take() {
            drop(reader);
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Engine for SqliteReader {
    fn capabilities(&self) -> Capabilities {
        capabilities()
    }

    fn enqueue(&self, _: Vec<NewJob>, _: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        self.refuse()
    }

    fn peek(&self, _: &Name, _: Timestamp) -> EngineAnswer<Peek> {
        self.refuse()
    }

    fn claim(&self, _: ClaimRequest, _: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        self.refuse()
    }

    fn renew(&self, _: Vec<Claim>, _: Span, _: Timestamp) -> EngineAnswer<Vec<bool>> {
        self.refuse()
    }

    fn finish(&self, _: Claim, _: Conclusion, _: Timestamp) -> EngineAnswer<Finished> {
        self.refuse()
    }

    fn release(&self, _: Vec<Claim>, _: Timestamp) -> EngineAnswer<Vec<bool>> {
        self.refuse()
    }

    fn abandon(&self, _: Option<&str>, _: Timestamp) -> EngineAnswer<u64> {
        self.refuse()
    }
}

impl Administration for SqliteReader {
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

    fn edit(&self, _: JobId, _: Edit, _: Timestamp) -> EngineAnswer<Edited> {
        self.refuse()
    }

    fn change(
        &self,
        _: Filter,
        _: Change,
        _: Option<JobId>,
        _: usize,
        _: Timestamp,
    ) -> EngineAnswer<Changed> {
        self.refuse()
    }

    fn stages(&self) -> EngineAnswer<Vec<StageSettings>> {
        self.read(read::stages)
    }

    fn set_stage(&self, _: &Name, _: StageChange, _: Timestamp) -> EngineAnswer<()> {
        self.refuse()
    }

    fn purge(&self, _: &Name, _: Timestamp, _: usize) -> EngineAnswer<u64> {
        self.refuse()
    }

    fn record(&self, _: Timestamp) -> EngineAnswer<()> {
        self.refuse()
    }

    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>> {
        self.read(move |connection| samples::samples(connection, since))
    }

    fn withdraw(
        &self,
        _: Filter,
        _: &str,
        _: Option<JobId>,
        _: usize,
        _: Timestamp,
    ) -> EngineAnswer<Page<Job>> {
        self.refuse()
    }

    fn confirm_moved(&self, _: Vec<JobId>, _: &str) -> EngineAnswer<u64> {
        self.refuse()
    }

    fn import(&self, _: Vec<MovedJob>, _: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        self.refuse()
    }

    fn backup(&self, target: &Path) -> EngineAnswer<()> {
        copy_in_background(&self.path, target)
    }
}
