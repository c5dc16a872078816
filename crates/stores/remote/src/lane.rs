//! One tag's queue: its waiting operations, and the one call in flight.

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

/// The channel of a caller that waits for an outcome; empty once it is answered.
#[derive(Debug)]
pub(crate) struct Reply(Option<oneshot::Sender<Result<Outcome, StoreError>>>);

impl Reply {
    pub(crate) fn new(sender: oneshot::Sender<Result<Outcome, StoreError>>) -> Self {
        Self(Some(sender))
    }

    /// For an operation without a caller.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Sends the outcome; returns it if the caller is gone.
    pub(crate) fn answer(&mut self, outcome: Outcome) -> Option<Outcome> {
        match self.0.take() {
            None => Some(outcome),
            Some(sender) => sender.send(Ok(outcome)).err()?.ok(),
        }
    }

    pub(crate) fn fail(&mut self, error: StoreError) {
        if let Some(sender) = self.0.take() {
            // The caller may be gone.
            let _ = sender.send(Err(error));
        }
    }

    /// Whether a caller waits for it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

/// A call in flight.
#[derive(Debug)]
pub(crate) struct InFlightCall {
    pub(crate) call: Arc<Call>,
    /// One per operation of the call, in order.
    pub(crate) replies: Vec<(u64, Reply)>,
    pub(crate) first_sent: Instant,
    /// What this process had given back to the account when it was first sent; see [`crate::denials`].
    pub(crate) changes: u64,
    pub(crate) attempts: u32,
    /// When to send it at the earliest.
    pub(crate) send_at: Instant,
    /// When the last attempt failed.
    pub(crate) failed_at: Instant,
    /// Whether it is on the network now, rather than waiting for a resend.
    pub(crate) out: bool,
    /// Whether an attempt may have been applied.
    pub(crate) unclear: bool,
    /// Why the last attempt failed.
    pub(crate) last_error: Option<StoreError>,
}

impl QueuedOperation {
    /// Whether to send it: a caller waits for it, or it returns units.
    pub(crate) fn is_wanted(&self) -> bool {
        gives_back(&self.operation) || self.reply.is_awaited()
    }
}

/// Whether to send it even without a caller: it returns, corrects or resets usage, or renews a slot.
fn gives_back(operation: &Operation) -> bool {
    !matches!(operation.action, Action::Take(_) | Action::Begin(..) | Action::Preview(_) | Action::Peek)
}

impl InFlightCall {
    /// Whether to resend it: a caller waits for one of its operations, or one of them returns units.
    pub(crate) fn is_wanted(&self) -> bool {
        self.replies.iter().any(|(_, reply)| reply.is_awaited()) || self.gives_back()
    }

    /// Whether all that a resend does is return what was granted: no caller waits, and there is nothing else in it.
    pub(crate) fn is_only_undone(&self) -> bool {
        let undone = |operation: &Operation| match &operation.action {
            Action::Take(terms) => terms.call.is_none(),
            Action::Preview(_) | Action::Peek => true,
            _ => false,
        };
        !self.replies.iter().any(|(_, reply)| reply.is_awaited()) && self.call.operations.iter().all(undone)
    }

    /// Whether one of its operations returns units.
    pub(crate) fn gives_back(&self) -> bool {
        self.call.operations.iter().any(gives_back)
    }

    /// Answers a caller whose deadline has passed. If the call is resent for other callers or for the units it returns, it
    /// may still be applied.
    fn expire(&mut self, id: u64, contention: Option<StoreError>) {
        let for_others = self.replies.iter().any(|(known, reply)| *known != id && reply.is_awaited());
        let unclear = self.out || self.unclear || for_others || self.gives_back();
        let retry = if unclear { Retry::Unclear } else { Retry::Safe };
        if let Some((_, reply)) = self.replies.iter_mut().find(|(known, _)| *known == id) {
            let known = self.last_error.clone().or(contention);
            reply.fail(match known {
                Some(error) => StoreError { retry, ..error },
                None => too_late(retry, "the store did not answer in time"),
            });
        }
    }

    /// A call that is sent for the first time.
    pub(crate) fn new(call: Arc<Call>, replies: Vec<(u64, Reply)>, now: Instant) -> Self {
        Self {
            call,
            replies,
            first_sent: now,
            changes: 0,
            attempts: 1,
            send_at: now,
            failed_at: now,
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
    /// The last attempt that failed because other clients used the account, and until when that explains a timeout.
    contention: Option<(Instant, StoreError)>,
}

impl Lane {
    /// Notes why an attempt failed; contention explains timeouts until then.
    pub(crate) fn note_failure(&mut self, error: &StoreError, until: Instant) {
        self.contention = is_contention(error).then(|| (until, error.clone()));
    }

    /// Why callers wait, if the store works and the account is busy.
    fn contention(&self, now: Instant) -> Option<StoreError> {
        let recent = self.contention.as_ref().filter(|(until, _)| now < *until);
        recent.map(|(_, error)| error.clone())
    }

    /// One of the operations to be sent next: all of a lane are about the same account.
    pub(crate) fn next_operation(&self) -> Option<&Operation> {
        let in_flight = self.flight.as_ref().and_then(|flight| flight.call.operations.first());
        in_flight.or_else(|| self.waiting.front().map(|pending| &pending.operation))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flight.is_none()
    }

    /// Answers a caller whose deadline has passed, if it waits. An unsent operation is dropped, unless it returns units:
    /// that one is still sent, so its outcome is unclear.
    pub(crate) fn expire(&mut self, id: u64, now: Instant) {
        let contention = self.contention(now);
        if let Some(at) = self.waiting.iter().position(|pending| pending.id == id) {
            let cause = contention.unwrap_or_else(|| too_late(Retry::Safe, &self.held_up_by()));
            let not_sent = |retry, but: &str| StoreError {
                retry,
                message: format!("{}; {but}", cause.message),
                ..cause.clone()
            };
            if self.waiting.get(at).is_some_and(|pending| gives_back(&pending.operation)) {
                if let Some(pending) = self.waiting.get_mut(at) {
                    pending.reply.fail(not_sent(Retry::Unclear, "it will still be sent"));
                }
            } else if let Some(mut pending) = self.waiting.remove(at) {
                pending.reply.fail(not_sent(Retry::Safe, "it was not applied"));
            }
        } else if let Some(flight) = &mut self.flight {
            flight.expire(id, contention);
        }
    }

    /// Why the operations that wait were not sent: the call before them failed, or has no answer.
    fn held_up_by(&self) -> String {
        let Some(flight) = &self.flight else { return "the deadline passed before it was sent".to_owned() };
        match &flight.last_error {
            Some(error) => format!("the call before it failed: {}", error.message),
            None => "the store did not answer the call before it in time".to_owned(),
        }
    }
}

/// Whether the store works, and other clients use the account.
fn is_contention(error: &StoreError) -> bool {
    error.fault == Fault::Account && error.retry != Retry::Useless
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
        Lane { waiting, flight: Some(flight), contention: None }.expire(2, Instant::now());
        let error = told.try_recv().unwrap().unwrap_err();
        assert!(error.message.contains("connection refused"), "{error}");
    }

    /// The call is certainly not applied only for the last waiting caller: while another waits, the call is resent with all
    /// of its operations.
    #[test]
    fn a_take_resent_in_another_batch_is_unclear() {
        let operations: Arc<[Operation]> = [take(1), take(2)].into();
        let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence: 1, again: false, operations };
        let ((first, mut first_told), (second, mut second_told)) = (oneshot::channel(), oneshot::channel());
        let replies = vec![(1, Reply::new(first)), (2, Reply::new(second))];
        let mut flight = InFlightCall::new(Arc::new(call), replies, Instant::now());
        flight.out = false;
        flight.expire(1, None);
        flight.expire(2, None);
        assert_eq!(first_told.try_recv().unwrap().unwrap_err().retry, Retry::Unclear);
        assert_eq!(second_told.try_recv().unwrap().unwrap_err().retry, Retry::Safe);
    }

    /// A timeout behind a busy account is contention, until an attempt fails otherwise or the account was busy long ago.
    #[test]
    fn a_timeout_behind_a_busy_account_is_contention() {
        let failure =
            |fault| StoreError { fault, retry: Retry::Safe, message: "an attempt failed".to_owned() };
        let start = Instant::now();
        let later = |secs| start + std::time::Duration::from_secs(secs);
        for (failures, expired, fault) in [
            (&[][..], start, Fault::Network),
            (&[Fault::Account], start, Fault::Account),
            (&[Fault::Account], later(2), Fault::Network),
            (&[Fault::Account, Fault::Network], start, Fault::Network),
        ] {
            let mut lane = Lane::default();
            let (sent, mut sent_told) = oneshot::channel();
            let (waiting, mut waiting_told) = oneshot::channel();
            let operations: Arc<[Operation]> = [take(1)].into();
            let call = Call { tag: Tag::of(&operations[0]).unwrap(), sequence: 1, again: false, operations };
            lane.flight = Some(InFlightCall::new(Arc::new(call), vec![(1, Reply::new(sent))], start));
            lane.waiting.push_back(QueuedOperation { id: 2, operation: take(2), reply: Reply::new(waiting) });
            failures.iter().for_each(|&fault| lane.note_failure(&failure(fault), later(1)));
            lane.expire(1, expired);
            lane.expire(2, expired);
            for told in [&mut sent_told, &mut waiting_told] {
                assert_eq!(told.try_recv().unwrap().unwrap_err().fault, fault, "{failures:?}");
            }
        }
    }
}
