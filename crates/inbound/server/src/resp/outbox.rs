//! Replies to one client in the order of its requests, including those that wait for the store.

use std::task::{Context, Poll};

use super::throttle::{self, Later};
use crate::bounds::{RESP_LATER_MAX, RESP_OUT_BYTES_MAX};

/// Replies that are sent together.
#[derive(Default)]
pub(super) struct Outbox {
    /// Finished replies, in a buffer reused from another outbox.
    pub(super) written: Vec<u8>,
    /// Replies that wait for the store, each with its position.
    gaps: Vec<(usize, Later)>,
    /// How many gaps were sent to the store.
    sent: usize,
}

impl Outbox {
    /// The buffer, for another outbox; `None` if nothing was written.
    pub(super) fn into_memory(mut self) -> Option<Vec<u8>> {
        self.written.clear();
        (self.written.capacity() > 0).then_some(self.written)
    }

    /// Leaves a gap for a reply that comes later.
    pub(super) fn later(&mut self, answer: Later) {
        self.gaps.push((self.written.len(), answer));
    }

    /// Sends unsent requests to the store, all at once: none waits for the one before it.
    pub(super) fn send(&mut self, context: &mut Context<'_>) {
        for (_, answer) in self.gaps.iter_mut().skip(self.sent) {
            // A finished future must not be polled again, so its result replaces it.
            if let Poll::Ready(answered) = answer.as_mut().poll(context) {
                *answer = Box::pin(std::future::ready(answered));
            }
        }
        self.sent = self.gaps.len();
    }

    /// Waits for all replies.
    pub(super) async fn fill_gaps(&mut self) {
        if self.gaps.is_empty() {
            return;
        }
        let mut whole = Vec::with_capacity(self.written.len());
        let mut from = 0;
        for (at, answer) in self.gaps.drain(..) {
            whole.extend_from_slice(self.written.get(from..at).unwrap_or_default());
            throttle::write(&answer.await, &mut whole);
            from = at;
        }
        whole.extend_from_slice(self.written.get(from..).unwrap_or_default());
        (self.written, self.sent) = (whole, 0);
    }

    /// Whether there is no reply, finished or waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.gaps.is_empty()
    }

    /// Whether the replies should be sent before more requests are answered.
    pub(super) fn is_full(&self) -> bool {
        self.written.len() >= RESP_OUT_BYTES_MAX || self.gaps.len() >= RESP_LATER_MAX
    }
}
