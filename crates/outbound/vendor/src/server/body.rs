//! The body of an answer: prepared parts, sent one after the other.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::state::RunningCall;

/// Parts of an answer. The call runs until the last one is sent.
pub(super) struct AnswerBody {
    parts: VecDeque<Bytes>,
    /// A stream does not tell its length.
    streamed: bool,
    running: Option<RunningCall>,
}

impl AnswerBody {
    pub(super) fn new(parts: impl IntoIterator<Item = Vec<u8>>, running: Option<RunningCall>) -> Self {
        let parts: VecDeque<Bytes> = parts.into_iter().map(Bytes::from).collect();
        Self { streamed: parts.len() > 1, parts, running }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.parts.pop_front();
        if self.parts.is_empty() {
            self.running = None;
        }
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.streamed {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}
