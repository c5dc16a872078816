//! A client's connection as bytes: over TCP or a unix socket, with TLS or without, always with deadlines.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::worker::ConnectionDeadlines;

/// A connection on its way from the accept loop to a worker.
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection that is registered with its worker's runtime.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Accepted {
    /// Whether it may have come from another machine.
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Registers it with the runtime of this thread.
    pub(crate) fn open(self) -> io::Result<Socket> {
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream).map(Socket::Tcp),
            Self::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix),
        }
    }
}

/// Calls the same method on either kind of stream.
macro_rules! either {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

/// A socket with deadlines: it reports reads and writes to them, and fails once they cut the connection off.
pub(crate) struct Watched {
    socket: Socket,
    deadlines: Rc<ConnectionDeadlines>,
}

impl Watched {
    pub(crate) fn new(socket: Socket, deadlines: Rc<ConnectionDeadlines>) -> Self {
        Self { socket, deadlines }
    }

    fn cut_off(&self) -> io::Result<()> {
        if self.deadlines.is_over() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Pending => self.deadlines.write_blocked(),
            Poll::Ready(_) => self.deadlines.wrote(),
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.cut_off()?;
        let before = buffer.filled().len();
        let read = either!(&mut self.socket, stream => Pin::new(stream).poll_read(context, buffer));
        if buffer.filled().len() > before {
            self.deadlines.received();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.cut_off()?;
        let written = either!(&mut self.socket, stream => Pin::new(stream).poll_write(context, bytes));
        self.note_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.cut_off()?;
        let written =
            either!(&mut self.socket, stream => Pin::new(stream).poll_write_vectored(context, parts));
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut self.socket, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut self.socket, stream => Pin::new(stream).poll_shutdown(context))
    }
}
