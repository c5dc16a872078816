//! Answers the other processes of this machine.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::{ALIVE_EVERY, LINE_BYTES_MAX, short_path};

/// How many processes may ask at a time. Others wait.
const CONNECTIONS_MAX: usize = 64;

/// How many connections wait to be accepted.
const BACKLOG: i32 = 128;

/// A pause after a failed accept, such as one for want of file descriptors.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
pub struct SocketServer {
    path: PathBuf,
    listening: JoinHandle<()>,
}

impl SocketServer {
    /// Listens at `path`, for the user of this process only. A socket that is there is replaced: the caller knows that it is
    /// left over from a process that died. `answer` makes the line that answers a line.
    pub fn start<A>(
        path: &Path,
        answer: impl Fn(Vec<u8>) -> A + Clone + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        A: Future<Output = Vec<u8>> + Send + 'static,
    {
        let listener = listen(path)?;
        Ok(Self { path: path.to_owned(), listening: tokio::spawn(accept(listener, answer)) })
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.listening.abort();
        // The next one replaces it, too.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (short, _folder) = short_path(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Before it has a file: the file is made with this mode, so that no other user can open it for a moment.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(short)?)?;
    net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

async fn accept<A>(listener: UnixListener, answer: impl Fn(Vec<u8>) -> A + Clone + Send + Sync + 'static)
where
    A: Future<Output = Vec<u8>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(permit) = room.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let answer = answer.clone();
                connections.spawn(async move {
                    // A process that went away needs no answer.
                    let _ = serve(stream, answer).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a process could not connect to the socket");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve<A: Future<Output = Vec<u8>>>(
    stream: UnixStream,
    answer: impl Fn(Vec<u8>) -> A,
) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        let read = (&mut from).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).await?;
        // A line that is too long has no answer: its process is told by the closed connection.
        if read == 0 || line.len() as u64 > LINE_BYTES_MAX {
            return Ok(());
        }
        let said = while_heard(answer(line), &mut to).await?;
        to.write_all(&said).await?;
    }
}

/// Waits for an answer. Meanwhile, the other process hears that this one works on it.
async fn while_heard<T>(answer: impl Future<Output = T>, to: &mut OwnedWriteHalf) -> io::Result<T> {
    let mut answer = pin!(answer);
    loop {
        match timeout(ALIVE_EVERY, &mut answer).await {
            Ok(answer) => return Ok(answer),
            Err(_) => to.write_all(b" ").await?,
        }
    }
}
