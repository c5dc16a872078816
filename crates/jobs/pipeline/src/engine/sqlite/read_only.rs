//! The jobs of a file whose owner does not answer, for commands that only read.
//!
//! The write-ahead log lets a process read beside one that writes, and so beside one that was suspended in the middle of it.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::reader::Reader;
use super::{calls, copy_in_background, file, schema};
use crate::engine::checks::refuse;
use crate::engine::request::reply;
use crate::{Capabilities, Engine, EngineAnswer, EngineError, EngineReply, EngineRequest};

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
        Capabilities::ALL
    }

    fn call(&self, request: EngineRequest) -> EngineAnswer<EngineReply> {
        match (request, &self.thread) {
            (EngineRequest::Backup { target }, _) => {
                reply(copy_in_background(&self.path, target), EngineReply::Backup)
            }
            (request, Some((reader, _))) if request.is_read() => {
                reader.ask(move |connection| calls::read(connection, request))
            }
            (request @ (EngineRequest::Tidy | EngineRequest::Flush | EngineRequest::RunnerView), _) => {
                Box::pin(ready(request.unsupported()))
            }
            _ => refuse(self.because.clone()),
        }
    }
}
