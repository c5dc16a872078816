//! One tag's queue: what waits, and the one call in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollway_core::{Action, Fault, Operation, Outcome, Retry, StoreError};

use crate::Call;

/// An operation that waits in a lane, with its reply.
#[derive(Debug)]
pub(crate) struct QueuedOperation {
    pub(crate) id: u64,
    pub(crate) operation: Operation,
    pub(crate) reply: Reply,
}

/// Where a caller waits for an outcome; empty once the caller is answered.
#[derive(Debug)]
pub(crate) struct Reply(Option<oneshot::Sender<Result<Outcome, StoreError>>>);

impl Reply {
    pub(crate) fn new(sender: oneshot::Sender<Result<Outcome, StoreError>>) -> Self {
        Self(Some(sender))
    }

    /// Of an operation that has no caller.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Answers; hands the outcome back if the caller no longer listens.
    pub(crate) fn answer(&mut self, outcome: Outcome) -> Option<Outcome> {
        match self.0.take() {
            None => Some(outcome),
            Some(sender) => sender.send(Ok(outcome)).err()?.ok(),
        }
    }

    pub(crate) fn fail(&mut self, error: StoreError) {
        if let Some(sender) = self.0.take() {
            // A caller that has left need not know.
            let _ = sender.send(Err(error));
        }
    }

    /// Whether a caller waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

/// A call on its way.
#[derive(Debug)]
pub(crate) struct InFlightCall {
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

impl QueuedOperation {
    /// Whether it is still to be sent: a caller waits for it, or it returns something.
    pub(crate) fn is_wanted(&self) -> bool {
        gives_back(&self.operation) || self.reply.is_awaited()
    }
}

/// Whether it matters to others than its caller.
fn gives_back(operation: &Operation) -> bool {
    !matches!(operation.action, Action::Take(_) | Action::Begin(..) | Action::Preview(_) | Action::Peek)
}

impl InFlightCall {
    /// Whether it is to be sent again: a caller waits for an operation of it, or one returns something.
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
    pub(crate) waiting: VecDeque<QueuedOperation>,
    pub(crate) flight: Option<InFlightCall>,
}

impl Lane {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flight.is_none()
    }

    /// Tells a caller whose time is up, if it was not answered yet. A question that was not sent never will be; what gives
    /// something back is sent all the same, so its caller only hears that it is unclear.
    pub(crate) fn expire(&mut self, id: u64) {
        if let Some(at) = self.waiting.iter().position(|pending| pending.id == id) {
            let cause = self.held_up_by();
            if self.waiting.get(at).is_some_and(|pending| gives_back(&pending.operation)) {
                if let Some(pending) = self.waiting.get_mut(at) {
                    pending.reply.fail(too_late(Retry::Unclear, &format!("{cause}; it will be sent")));
                }
            } else if let Some(mut pending) = self.waiting.remove(at) {
                pending.reply.fail(too_late(Retry::Safe, &format!("{cause}; it was not sent")));
            }
        } else if let Some(flight) = &mut self.flight {
            flight.expire(id);
        }
    }
}

impl Lane {
    /// Why the operations that wait were not sent: the call before them failed, or has no answer.
    fn held_up_by(&self) -> String {
        let Some(flight) = &self.flight else { return "the store did not take it in time".to_owned() };
        match &flight.last_error {
            Some(error) => format!("the call before it failed: {}", error.message),
            None => "the store did not answer the call before it in time".to_owned(),
        }
    }
}

fn too_late(retry: Retry, message: &str) -> StoreError {
    StoreError { fault: Fault::Network, retry, message: message.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tollway_core::{Charge, PermitId, Policy, Subject, Terms};

    use super::*;
    use crate::Tag;

    fn take(permit: u128) -> Operation {
        let policy = Arc::new(Policy::new("p", ["1 / minute"]).unwrap());
        let charge = Charge::new(policy, Subject::SHARED);
        Operation::one(charge, Action::Take(Terms::now(PermitId(permit))))
    }

    /// C7: a take that waited behind a failing call names why that call failed.
    #[test]
    fn a_take_that_was_not_sent_names_the_failure_before_it() {
        let operations: Arc<[Operation]> = [take(1)].into();
        let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence: 1, again: false, operations };
        let (sender, mut told) = oneshot::channel();
        let mut flight = InFlightCall::new(Arc::new(call), Vec::new(), Instant::now());
        let message = "connection refused".to_owned();
        flight.last_error = Some(StoreError { fault: Fault::Network, retry: Retry::Safe, message });
        let waiting = [QueuedOperation { id: 2, operation: take(2), reply: Reply::new(sender) }].into();
        Lane { waiting, flight: Some(flight) }.expire(2);
        let error = told.try_recv().unwrap().unwrap_err();
        assert!(error.message.contains("connection refused"), "{error}");
    }

    /// Only for the last waiting caller is the call certainly not applied: while another caller waits, the call is resent with
    /// all of its operations.
    #[test]
    fn a_take_resent_in_another_batch_is_unclear() {
        let operations: Arc<[Operation]> = [take(1), take(2)].into();
        let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence: 1, again: false, operations };
        let ((first, mut first_told), (second, mut second_told)) = (oneshot::channel(), oneshot::channel());
        let replies = vec![(1, Reply::new(first)), (2, Reply::new(second))];
        let mut flight = InFlightCall::new(Arc::new(call), replies, Instant::now());
        flight.out = false;
        flight.expire(1);
        flight.expire(2);
        assert_eq!(first_told.try_recv().unwrap().unwrap_err().retry, Retry::Unclear);
        assert_eq!(second_told.try_recv().unwrap().unwrap_err().retry, Retry::Safe);
    }
}
