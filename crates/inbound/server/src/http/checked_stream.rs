//! A connection whose bytes are checked as they arrive, before the HTTP library reads them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Follows the bytes that a client sends.
pub(super) trait ArrivalCheck {
    /// Checks bytes that come after those of the last call. An error fails the read, and so ends the connection.
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A stream with the check of what it reads. Writes pass through.
pub(super) struct CheckedStream<S, C> {
    stream: S,
    check: C,
}

impl<S, C> CheckedStream<S, C> {
    pub(super) fn new(stream: S, check: C) -> Self {
        Self { stream, check }
    }
}

impl<S: AsyncRead + Unpin, C: ArrivalCheck + Unpin> AsyncRead for CheckedStream<S, C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        Poll::Ready(this.check.arrived(buffer.filled().get(before..).unwrap_or_default()))
    }
}

impl<S: AsyncWrite + Unpin, C: Unpin> AsyncWrite for CheckedStream<S, C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
