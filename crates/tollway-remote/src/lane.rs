//! One tag's queue: what waits, and the one call in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollway_core::{Fault, Outcome, OwnedOperation, OwnedVerb, Retry, StoreError};

use crate::Call;

/// An operation, and where its outcome is awaited.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) operation: OwnedOperation,
    pub(crate) reply: Reply,
}

/// Where an outcome is awaited: by somebody until they are answered, then by nobody.
#[derive(Debug)]
pub(crate) struct Reply(Option<oneshot::Sender<Result<Outcome, StoreError>>>);

impl Reply {
    pub(crate) fn new(sender: oneshot::Sender<Result<Outcome, StoreError>>) -> Self {
        Self(Some(sender))
    }

    /// Of an operation that nobody asked for.
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    /// Answers; gives the outcome back if nobody listens any more.
    pub(crate) fn answer(&mut self, outcome: Outcome) -> Result<(), Outcome> {
        match self.0.take() {
            None => Err(outcome),
            Some(sender) => sender.send(Ok(outcome)).map_err(|unsent| match unsent {
                Ok(outcome) => outcome,
                Err(_) => Outcome::Reset,
            }),
        }
    }

    pub(crate) fn fail(&mut self, error: StoreError) {
        if let Some(sender) = self.0.take() {
            // Whoever has left need not know.
            let _ = sender.send(Err(error));
        }
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) call: Arc<Call>,
    /// In the order of the call's operations; those are moved into it.
    pub(crate) replies: Vec<(u64, Reply)>,
    pub(crate) first_sent: Instant,
    pub(crate) attempts: u32,
    /// Not to be sent before.
    pub(crate) send_at: Instant,
    /// Whether it is out now, and not waiting to be sent again.
    pub(crate) out: bool,
    /// Whether an attempt may have been applied.
    pub(crate) unclear: bool,
    /// Why the last attempt failed.
    pub(crate) last_error: Option<StoreError>,
}

impl Request {
    /// Whether it is still to be sent: somebody waits for it, or it gives something back.
    pub(crate) fn is_wanted(&self) -> bool {
        gives_back(&self.operation) || self.reply.is_awaited()
    }
}

/// Whether it matters to others than its caller.
fn gives_back(operation: &OwnedOperation) -> bool {
    !matches!(
        operation.verb,
        OwnedVerb::Take(_) | OwnedVerb::Begin(..) | OwnedVerb::Preview(_) | OwnedVerb::Peek
    )
}

impl Flight {
    /// Whether it is to be sent again: somebody waits for a part of it, or a part gives something back.
    pub(crate) fn is_wanted(&self) -> bool {
        self.replies.iter().any(|(_, reply)| reply.is_awaited()) || self.gives_back()
    }

    /// Whether a part gives something back.
    pub(crate) fn gives_back(&self) -> bool {
        self.call.operations.iter().any(gives_back)
    }

    /// Tells a caller whose time is up. If the call is sent again, for others or for what it gives back, it may yet be
    /// applied.
    fn expire(&mut self, id: u64) {
        let for_others = self.replies.iter().any(|(known, reply)| *known != id && reply.is_awaited());
        let unclear = self.out || self.unclear || for_others || self.gives_back();
        let retry = if unclear { Retry::Unclear } else { Retry::Safe };
        if let Some((_, reply)) = self.replies.iter_mut().find(|(known, _)| *known == id) {
            reply.fail(match &self.last_error {
                Some(error) => StoreError { retry, ..error.clone() },
                None => too_late(retry, "the store did not answer in time"),
            });
        }
    }

    /// One that is being sent for the first time.
    pub(crate) fn new(call: Arc<Call>, replies: Vec<(u64, Reply)>, now: Instant) -> Self {
        Self {
            call,
            replies,
            first_sent: now,
            attempts: 1,
            send_at: now,
            out: true,
            unclear: false,
            last_error: None,
        }
    }
}

/// One tag's queue.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) waiting: VecDeque<Request>,
    pub(crate) flight: Option<Flight>,
}

impl Lane {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flight.is_none()
    }

    /// Tells a caller whose time is up, if it was not answered yet. A question that was not sent never will be; what gives
    /// something back is sent all the same, so its caller only hears that it is unclear.
    pub(crate) fn expire(&mut self, id: u64) {
        if let Some(at) = self.waiting.iter().position(|request| request.id == id) {
            if self.waiting.get(at).is_some_and(|request| gives_back(&request.operation)) {
                if let Some(request) = self.waiting.get_mut(at) {
                    request
                        .reply
                        .fail(too_late(Retry::Unclear, "the store did not take it in time; it will be sent"));
                }
            } else if let Some(mut request) = self.waiting.remove(at) {
                request
                    .reply
                    .fail(too_late(Retry::Safe, "the store did not take it in time; it was not sent"));
            }
        } else if let Some(flight) = &mut self.flight {
            flight.expire(id);
        }
    }
}

fn too_late(retry: Retry, message: &str) -> StoreError {
    StoreError { fault: Fault::Network, retry, message: message.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tollway_core::{OwnedParty, OwnedTerms, PermitId, Policy, Span, Subject};

    use super::*;
    use crate::Tag;

    fn take(permit: u128) -> OwnedOperation {
        let policy = Policy::new("p", ["1 / minute"]).unwrap();
        let cost = policy.default_cost().clone();
        let terms =
            OwnedTerms { permit: PermitId(permit), max_wait: Span::ZERO, call: None, readings: false };
        OwnedOperation {
            parties: vec![OwnedParty { policy, subject: Subject::SHARED, cost }],
            verb: OwnedVerb::Take(terms),
        }
    }

    /// Only the last who waits can be told that nothing was applied: for anybody else the call is sent once more, and with
    /// it all of its operations.
    #[test]
    fn a_take_that_goes_again_with_another_is_unclear() {
        let operations = vec![take(1), take(2)];
        let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence: 1, again: false, operations };
        let ((first, mut first_told), (second, mut second_told)) = (oneshot::channel(), oneshot::channel());
        let replies = vec![(1, Reply::new(first)), (2, Reply::new(second))];
        let mut flight = Flight::new(Arc::new(call), replies, Instant::now());
        flight.out = false;
        flight.expire(1);
        flight.expire(2);
        assert_eq!(first_told.try_recv().unwrap().unwrap_err().retry, Retry::Unclear);
        assert_eq!(second_told.try_recv().unwrap().unwrap_err().retry, Retry::Safe);
    }
}
