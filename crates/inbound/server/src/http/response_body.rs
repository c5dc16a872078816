//! The body of a response, complete before it is sent, and its trailers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::header::HeaderMap;

/// A complete body.
#[derive(Default)]
pub(crate) struct Body {
    data: Bytes,
    /// The trailers of a gRPC response. Boxed: all other responses have none.
    trailers: Option<Box<HeaderMap>>,
}

impl Body {
    pub(crate) fn new(data: Bytes) -> Self {
        Self { data, trailers: None }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.data
    }

    pub(crate) fn with_trailers(data: Bytes, trailers: HeaderMap) -> Self {
        Self { data, trailers: Some(Box::new(trailers)) }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = std::mem::take(&mut self.data);
        let frame = match data.is_empty() {
            false => Some(Frame::data(data)),
            true => self.trailers.take().map(|trailers| Frame::trailers(*trailers)),
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.data.len()).unwrap_or(u64::MAX))
    }
}
