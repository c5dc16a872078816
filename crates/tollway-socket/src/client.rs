//! Asks the process behind a socket.

use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::{LINE_BYTES_MAX, short_path};

/// How many calls may be queued. One more is an error; callers never block.
const QUEUED_MAX: usize = 256;

/// A connection to the process behind a socket. Calls are answered one after the other, in any runtime or none.
pub struct SocketClient {
    /// None only while it is dropped.
    queue: Option<SyncSender<Asked>>,
    thread: Option<JoinHandle<()>>,
}

/// A call, and who waits for its answer.
struct Asked {
    line: Vec<u8>,
    caller: oneshot::Sender<io::Result<Vec<u8>>>,
}

impl SocketClient {
    /// Connects. None: no process answers there.
    pub fn connect(path: &Path) -> io::Result<Option<Self>> {
        let stream = match short_path(path).and_then(|(path, _folder)| UnixStream::connect(path)) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut connection = Connection { from: BufReader::new(stream.try_clone()?), to: stream };
        let (queue, asked) = sync_channel::<Asked>(QUEUED_MAX);
        let thread = std::thread::Builder::new().name("tollway-socket".to_owned()).spawn(move || {
            for Asked { line, caller } in asked {
                // The caller may be gone.
                let _ = caller.send(connection.ask(&line));
            }
        })?;
        Ok(Some(Self { queue: Some(queue), thread: Some(thread) }))
    }

    /// Sends a line, which ends with a line feed, and waits for the line that answers it. It is sent also if the answer is
    /// dropped. `WouldBlock`: too many calls wait already, and this one was not sent.
    pub fn ask(&self, line: Vec<u8>) -> impl Future<Output = io::Result<Vec<u8>>> + Send + use<> {
        let (caller, answered) = oneshot::channel();
        let queued = self.queue.as_ref().map(|queue| queue.try_send(Asked { line, caller }));
        async move {
            if !matches!(queued, Some(Ok(()))) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            answered.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
        }
    }
}

impl Drop for SocketClient {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Connection {
    from: BufReader<UnixStream>,
    to: UnixStream,
}

impl Connection {
    fn ask(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        self.to.write_all(line)?;
        let mut said = Vec::new();
        (&mut self.from).take(LINE_BYTES_MAX).read_until(b'\n', &mut said)?;
        match said.last() {
            Some(b'\n') => Ok(said),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
