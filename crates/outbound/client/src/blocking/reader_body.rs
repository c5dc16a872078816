//! The body of a request that is read while it is sent.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The bytes that are read at once.
const CHUNK_BYTES: usize = 16 * 1_024;

/// The chunks that are read ahead of the connection: it never waits for a disk.
const CHUNKS_AHEAD: usize = 4;

/// A reader, or what a thread reads from it.
pub(super) enum ReaderBody {
    /// In a lock only because bodies may be shared between threads.
    Unread(Mutex<Option<Box<dyn Read + Send>>>),
    Reading(Receiver<io::Result<Bytes>>),
}

impl ReaderBody {
    pub(super) fn new(reader: impl Read + Send + 'static) -> Self {
        Self::Unread(Mutex::new(Some(Box::new(reader))))
    }

    /// A reader may block, which the thread for I/O must not. The thread ends with the reader, or when the body is dropped.
    fn start(mut reader: Box<dyn Read + Send>) -> io::Result<Receiver<io::Result<Bytes>>> {
        let (sender, receiver) = channel(CHUNKS_AHEAD);
        let thread = std::thread::Builder::new().name("tollway-body".to_owned());
        thread.spawn(move || read_all(&mut reader, &sender))?;
        Ok(receiver)
    }
}

fn read_all(reader: &mut impl Read, sender: &Sender<io::Result<Bytes>>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => Ok(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_over = read.is_err();
        if sender.blocking_send(read).is_err() || is_over {
            return;
        }
    }
}

impl Body for ReaderBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Self::Unread(reader) = &mut *self {
            let unread = reader.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            let Some(reader) = unread else { return Poll::Ready(None) };
            match Self::start(reader) {
                Ok(receiver) => *self = Self::Reading(receiver),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        let Self::Reading(receiver) = &mut *self else { return Poll::Ready(None) };
        receiver.poll_recv(context).map(|read| read.map(|read| read.map(Frame::data)))
    }
}
