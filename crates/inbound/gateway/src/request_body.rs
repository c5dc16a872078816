//! The body of a request: kept up to a bound, so that a refused call can be sent again; what is longer is streamed.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tollway_client::ForwardBody;

use crate::bounds::{KEPT_BYTES_MAX, KEPT_BYTES_PER_WORKER_MAX, READ_AHEAD};

/// The bytes of bodies that the calls of a worker keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptBytes(Rc<Cell<usize>>);

/// The bytes of one body among them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    of_worker: KeptBytes,
    bytes: usize,
}

impl Kept {
    fn add(&mut self, bytes: usize) -> bool {
        let total = self.of_worker.0.get().saturating_add(bytes);
        let fits = total <= KEPT_BYTES_PER_WORKER_MAX && self.bytes.saturating_add(bytes) <= KEPT_BYTES_MAX;
        if fits {
            self.of_worker.0.set(total);
            self.bytes = self.bytes.saturating_add(bytes);
        }
        fits
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.of_worker.0.set(self.of_worker.0.get().saturating_sub(self.bytes));
    }
}

/// A request's body, as far as it was read.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// All of it.
    Whole(Bytes),
    /// The rest comes when the vendor reads it.
    Streamed(StreamedBody),
}

impl RequestBody {
    /// Reads the body, if it is short and arrives soon. The error is the client's: it broke off.
    pub(crate) async fn read(
        mut body: Incoming,
        of_worker: &KeptBytes,
    ) -> Result<(Self, Kept), hyper::Error> {
        let mut kept = Kept { of_worker: of_worker.clone(), bytes: 0 };
        let length = body.size_hint();
        let announced = usize::try_from(length.lower()).unwrap_or(usize::MAX);
        let mut ahead = Ahead::default();
        let is_whole = body.is_end_stream()
            || announced <= KEPT_BYTES_MAX
                && match tokio::time::timeout(READ_AHEAD, read_ahead(&mut body, &mut ahead, &mut kept)).await
                {
                    Ok(read) => read?,
                    Err(_) => false,
                };
        let ahead = ahead.into_bytes();
        if is_whole {
            return Ok((Self::Whole(ahead), kept));
        }
        let length = length.exact();
        Ok((Self::Streamed(StreamedBody { ahead, rest: body, length }), kept))
    }

    /// What is in memory.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match self {
            Self::Whole(bytes) => Some(bytes),
            Self::Streamed(_) => None,
        }
    }

    /// Its length, as far as it is known.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Whole(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::Streamed(body) => body.length.unwrap_or_default(),
        }
    }
}

impl From<RequestBody> for ForwardBody {
    fn from(body: RequestBody) -> Self {
        match body {
            RequestBody::Whole(bytes) => Self::Whole(bytes),
            RequestBody::Streamed(body) => Self::Stream(body.map_err(Into::into).boxed_unsync()),
        }
    }
}

/// Pieces of a body. One piece, as most bodies have, is not copied.
#[derive(Debug, Default)]
struct Ahead {
    first: Bytes,
    more: BytesMut,
}

impl Ahead {
    fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.more.is_empty() {
            self.first = piece;
            return;
        }
        if self.more.is_empty() {
            self.more.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.more.extend_from_slice(&piece);
    }

    fn into_bytes(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}

/// Reads until the end of the body, or until no more may be kept. True at the end.
async fn read_ahead(body: &mut Incoming, ahead: &mut Ahead, kept: &mut Kept) -> Result<bool, hyper::Error> {
    while let Some(frame) = body.frame().await {
        // Frames without data are trailers, which end here.
        let Ok(piece) = frame?.into_data() else { continue };
        let fits = kept.add(piece.len());
        ahead.push(piece);
        if !fits {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A body of which a part was read.
#[derive(Debug)]
pub(crate) struct StreamedBody {
    ahead: Bytes,
    rest: Incoming,
    length: Option<u64>,
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if !self.ahead.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.ahead)))));
        }
        Pin::new(&mut self.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = u64::try_from(self.ahead.len()).unwrap_or(u64::MAX);
        match self.rest.size_hint().exact() {
            Some(rest) => SizeHint::with_exact(ahead.saturating_add(rest)),
            None => SizeHint::default(),
        }
    }
}
