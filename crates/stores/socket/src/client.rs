//! Asks the process behind a socket.

use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::{ALIVE_BYTES_MAX, ALIVE_EVERY, LINE_BYTES_MAX, short_path};

/// How many calls may be queued. One more is an error; callers never block.
const QUEUED_MAX: usize = 256;

/// How long a connection may take. The kernel makes it at once, unless a process that accepts none has filled its queue.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// How long a process may be silent before it counts as one that does not answer. While it works on an answer, it is heard
/// every [`ALIVE_EVERY`].
const SILENT_MAX: Duration = Duration::from_secs(5);

const _: () = assert!(SILENT_MAX.as_millis() > 3 * ALIVE_EVERY.as_millis());

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
    /// Connects. None: no process listens there. `TimedOut`: one does, and accepts no connections.
    pub fn connect(path: &Path) -> io::Result<Option<Self>> {
        let (queue, asked) = sync_channel::<Asked>(QUEUED_MAX);
        let (tell, told) = sync_channel(1);
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("tollway-socket".to_owned()).spawn(move || {
            match Connection::open(&path) {
                // The caller may have given up.
                Ok(connection) if tell.send(Ok(())).is_ok() => connection.serve(&asked),
                Ok(_) => {}
                Err(error) => drop(tell.send(Err(error))),
            }
        })?;
        match told.recv_timeout(CONNECT_WITHIN) {
            Ok(Ok(())) => Ok(Some(Self { queue: Some(queue), thread: Some(thread) })),
            Ok(Err(error))
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Ok(Err(error)) => Err(error),
            // The thread ends with its call, or with this process.
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sends a line, which ends with a line feed, and waits for the line that answers it. It is sent also if the answer is
    /// dropped. `WouldBlock`: too many calls wait already, and this one was not sent. `TimedOut`: the process is silent, and so
    /// is every later answer of this connection.
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
    /// Why an earlier call failed. Its answer may still come, and would be taken for that of the next one.
    broken: Option<io::ErrorKind>,
}

impl Connection {
    fn open(path: &Path) -> io::Result<Self> {
        let to = short_path(path).and_then(|(path, _folder)| UnixStream::connect(path))?;
        to.set_read_timeout(Some(SILENT_MAX))?;
        to.set_write_timeout(Some(SILENT_MAX))?;
        Ok(Self { from: BufReader::new(to.try_clone()?), to, broken: None })
    }

    /// Asks what is queued, until the client is dropped.
    fn serve(mut self, asked: &Receiver<Asked>) {
        for Asked { line, caller } in asked {
            let answer = match self.broken {
                Some(kind) => Err(kind.into()),
                None => self.ask(&line).inspect_err(|error| self.broken = Some(error.kind())),
            };
            // The caller may be gone.
            let _ = caller.send(answer);
        }
    }

    fn ask(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        self.exchange(line).map_err(|error| match error.kind() {
            // How a socket says that its time is over.
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }

    fn exchange(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        self.to.write_all(line)?;
        let mut said = Vec::new();
        (&mut self.from).take(LINE_BYTES_MAX + ALIVE_BYTES_MAX).read_until(b'\n', &mut said)?;
        match said.last() {
            Some(b'\n') => Ok(said),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
