//! The body of an answer on its way to the caller, read along for what it says about limits and tokens. Nothing waits for it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tollway_dialects::{BODY_BYTES_MAX, BodyNeed, Dialect, UsageReader, VendorResponse, is_stream};

use super::Watched;
use super::seen::Unread;

/// A body that is read along.
pub(crate) struct WatchedBody<B> {
    body: B,
    answer: WatchedAnswer,
}

struct WatchedAnswer {
    watched: Watched,
    dialect: &'static Dialect,
    status: StatusCode,
    headers: HeaderMap,
    /// What is still needed of the body; `None` once the answer was taken in.
    need: Option<BodyNeed>,
    /// The beginning of the body, as far as it is needed.
    begun: Vec<u8>,
    /// `None` if the body is compressed.
    usage: Option<UsageReader>,
}

impl<B> WatchedBody<B> {
    pub(super) fn new(
        watched: Watched,
        dialect: &'static Dialect,
        status: StatusCode,
        headers: &HeaderMap,
        body: B,
    ) -> Self {
        let is_compressed = headers
            .get(CONTENT_ENCODING)
            .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        let mut answer = WatchedAnswer {
            need: dialect.body_need(status, headers, false).filter(|_| !is_compressed),
            usage: (!is_compressed).then(UsageReader::new),
            begun: Vec::new(),
            headers: headers.clone(),
            watched,
            dialect,
            status,
        };
        if is_compressed {
            answer.watched.change(|seen, _| seen.unread(Unread::Compressed));
        } else if is_stream(headers) {
            answer.watched.change(|seen, _| seen.unread(Unread::Stream));
        }
        if answer.need.is_none() {
            answer.take_in();
        }
        Self { body, answer }
    }
}

impl WatchedAnswer {
    fn read(&mut self, piece: &[u8]) {
        if let Some(usage) = &mut self.usage {
            usage.feed(piece);
        }
        let Some(need) = &mut self.need else { return };
        let room = BODY_BYTES_MAX.saturating_sub(self.begun.len());
        self.begun.extend(piece.iter().take(room));
        if !need.wants_more(&self.begun) {
            if self.begun.len() >= BODY_BYTES_MAX {
                self.watched.change(|seen, _| seen.unread(Unread::TooLong));
            }
            self.take_in();
        }
    }

    /// Keeps what the answer says, as far as its body was read.
    fn take_in(&mut self) {
        self.need = None;
        let response = VendorResponse { status: self.status, headers: &self.headers, body: &self.begun };
        let observed = self.dialect.observe(&response);
        self.begun = Vec::new();
        let (status, dialect) = (self.status, self.dialect.name());
        self.watched.change(|seen, now| seen.answered(status, dialect, &observed, now));
    }
}

impl Drop for WatchedAnswer {
    fn drop(&mut self) {
        if self.need.is_some() {
            self.take_in();
        }
        if let Some(usage) = self.usage.as_ref().and_then(UsageReader::usage) {
            self.watched.change(|seen, now| seen.used(usage, now));
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(piece) = frame.data_ref()
        {
            this.answer.read(piece);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
