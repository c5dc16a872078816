//! What a client will be sent: replies in the order of its requests, also those that the store has yet to give.

use std::task::{Context, Poll};

use super::throttle::{self, Later};
use crate::bounds::{RESP_LATER_MAX, RESP_OUT_BYTES_MAX};

/// Replies that go out together.
#[derive(Default)]
pub(super) struct Outbox {
    /// Those that are there, in memory that another outbox has done with.
    pub(super) written: Vec<u8>,
    /// Those that are not, each by where it belongs.
    gaps: Vec<(usize, Later)>,
    /// How many of them were sent to the store.
    sent: usize,
}

impl Outbox {
    /// Memory for another outbox, once everything is sent; none if there was nothing to write.
    pub(super) fn into_memory(mut self) -> Option<Vec<u8>> {
        self.written.clear();
        (self.written.capacity() > 0).then_some(self.written)
    }

    /// Leaves a gap for a reply that comes later.
    pub(super) fn later(&mut self, answer: Later) {
        self.gaps.push((self.written.len(), answer));
    }

    /// Sends on their way to the store those that have not been. Together: none waits for the one before it.
    pub(super) fn send(&mut self, context: &mut Context<'_>) {
        for (_, answer) in self.gaps.iter_mut().skip(self.sent) {
            // One that is answered already must not be polled again: it becomes its answer.
            if let Poll::Ready(answered) = answer.as_mut().poll(context) {
                *answer = Box::pin(std::future::ready(answered));
            }
        }
        self.sent = self.gaps.len();
    }

    /// Waits until every reply is there.
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

    /// Whether there is nothing to send, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.gaps.is_empty()
    }

    /// Whether what is there should go out before more is answered.
    pub(super) fn is_full(&self) -> bool {
        self.written.len() >= RESP_OUT_BYTES_MAX || self.gaps.len() >= RESP_LATER_MAX
    }
}
