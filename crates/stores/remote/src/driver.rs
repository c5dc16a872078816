//! The task that drives a link: it collects operations, manages the lanes, and sends ready calls.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};
use tollway_core::{Fault, Operation, Outcomes, Part, Retry, StoreError};

use crate::alarm::raise_if_over;
use crate::backoff::Backoff;
use crate::denials::Denials;
use crate::lane::{InFlightCall, Lane, QueuedOperation, Reply};
use crate::lost::return_operation;
use crate::part_queue::PartQueues;
use crate::{Call, Link, OPERATIONS_PER_CALL_MAX, Options, RETRY_FOR, THROTTLED_RETRIES_MAX, Tag, UNDO_FOR};

/// How many operations are collected before anything is sent.
const COLLECTED_MAX: usize = 1_024;

/// How many operations may arrive within one deadline, and so how many the lanes may queue.
const LANES_MAX: usize = 1 << 20;

/// A driver that wakes up later than this was stopped with its process, or starved. The store had no chance to answer.
const STOPPED_MIN: Duration = Duration::from_millis(100);

/// How long a closing store waits for calls in flight.
const CLOSING: Duration = Duration::from_secs(1);

type Answers = (Part, Vec<Arc<Call>>, Vec<Result<Outcomes, StoreError>>);

/// The state of the task.
pub(crate) struct Driver<L> {
    link: Arc<L>,
    options: Options,
    lanes: HashMap<Tag, Lane>,
    parts: PartQueues,
    out: FuturesUnordered<Pin<Box<dyn Future<Output = Answers> + Send>>>,
    /// Callers' deadlines in order of arrival: all have the same length.
    due: VecDeque<(Instant, Tag, u64)>,
    /// How many of them, from the front, had their deadline extended.
    extended: usize,
    /// Calls to resend.
    again: BinaryHeap<Reverse<(Instant, Tag)>>,
    backoff: Backoff,
    denials: Arc<Denials>,
    sequence: u64,
}

impl<L: Link> Driver<L> {
    pub(crate) fn new(link: Arc<L>, options: Options, denials: Arc<Denials>) -> Self {
        Self {
            link,
            options,
            lanes: HashMap::new(),
            parts: PartQueues::default(),
            out: FuturesUnordered::new(),
            due: VecDeque::new(),
            extended: 0,
            again: BinaryHeap::new(),
            backoff: Backoff::default(),
            denials,
            sequence: 0,
        }
    }

    /// Runs until the store is dropped.
    pub(crate) async fn run(mut self, mut incoming: Receiver<(Tag, QueuedOperation)>) {
        let mut collected = Vec::with_capacity(COLLECTED_MAX);
        loop {
            let wake_at = self.wake_at();
            tokio::select! {
                count = incoming.recv_many(&mut collected, COLLECTED_MAX) => {
                    if count == 0 {
                        return self.close().await;
                    }
                    // Lets operations that are about to arrive join the batch.
                    tokio::task::yield_now().await;
                    while collected.len() < COLLECTED_MAX && let Ok(pending) = incoming.try_recv() {
                        collected.push(pending);
                    }
                    collected.drain(..).for_each(|(tag, pending)| self.enqueue(tag, pending));
                }
                Some(answers) = self.out.next(), if !self.out.is_empty() => self.answered(answers),
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => self.wake(),
            }
            self.send_ready();
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let due = self.due.front().map(|(at, ..)| *at);
        let again = self.again.peek().map(|Reverse((at, _))| *at);
        due.into_iter().chain(again).min()
    }

    fn enqueue(&mut self, tag: Tag, mut pending: QueuedOperation) {
        if self.due.len() >= LANES_MAX {
            let message = format!("{LANES_MAX} operations arrived within one deadline; no more are accepted");
            return pending.reply.fail(StoreError { fault: Fault::Store, retry: Retry::Safe, message });
        }
        if pending.reply.is_awaited() {
            self.due.push_back((Instant::now() + self.options.deadline, tag.clone(), pending.id));
        }
        let lane = self.lanes.entry(tag.clone()).or_default();
        let was_idle = lane.is_empty();
        lane.waiting.push_back(pending);
        if was_idle {
            self.make_ready(tag);
        }
    }

    /// Lists a lane among those of its part.
    fn make_ready(&mut self, tag: Tag) {
        let operation = self.lanes.get(&tag).and_then(Lane::next_operation);
        let part = operation.map_or(Part::WHOLE, |operation| self.link.part_of(operation));
        self.parts.of(&part).ready.push_back(tag);
    }

    /// Answers callers whose deadline has passed, and readies calls whose backoff has ended.
    fn wake(&mut self) {
        let now = Instant::now();
        self.extend_deadlines_after_a_stop(now);
        while self.due.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, tag, id)) = self.due.pop_front() else { break };
            self.extended = self.extended.saturating_sub(1);
            if let Some(lane) = self.lanes.get_mut(&tag) {
                lane.expire(id, now);
                self.drop_if_empty(&tag);
            }
        }
        while self.again.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            if let Some(Reverse((_, tag))) = self.again.pop() {
                self.make_ready(tag);
            }
        }
    }

    /// A process that was stopped (SIGSTOP, a paused machine) would take the store for failed when it resumes. Each caller gets
    /// the whole deadline again, once.
    fn extend_deadlines_after_a_stop(&mut self, now: Instant) {
        let stopped = self.due.front().is_some_and(|(at, ..)| now > *at + STOPPED_MIN);
        if stopped && self.extended == 0 {
            self.due.iter_mut().for_each(|(at, ..)| *at = now + self.options.deadline);
            self.extended = self.due.len();
        }
    }

    fn send_ready(&mut self) {
        while let Some(part) = self.parts.next_ready(L::GROUPS_OUT_MAX) {
            let mut calls = Vec::new();
            while calls.len() < L::CALLS_TOGETHER_MAX
                && let Some(tag) = self.parts.of(&part).ready.pop_front()
            {
                calls.extend(self.next_call(&part, &tag));
            }
            if !calls.is_empty() {
                self.parts.of(&part).groups_out += 1;
                let answers = Arc::clone(&self.link).send(calls.clone());
                self.out.push(Box::pin(async move { (part, calls, answers.await) }));
            }
        }
    }

    /// The next call of a ready lane: a resend, or a new one from its queue.
    fn next_call(&mut self, part: &Part, tag: &Tag) -> Option<Arc<Call>> {
        let answered_at = self.parts.of(part).answered_at;
        let lane = self.lanes.get_mut(tag)?;
        let now = Instant::now();
        if let Some(flight) = &mut lane.flight {
            if flight.out || now < flight.send_at {
                return None;
            }
            let age = now.duration_since(flight.first_sent);
            let is_silent = answered_at.is_none_or(|answered| answered < flight.failed_at);
            let waits = age >= RETRY_FOR && is_silent && flight.is_only_undone();
            if waits && age < UNDO_FOR {
                flight.send_at = now + self.backoff.after(flight.attempts);
                self.again.push(Reverse((flight.send_at, tag.clone())));
                return None;
            }
            if !waits && (flight.unclear || flight.is_wanted()) {
                flight.out = true;
                return Some(Arc::clone(&flight.call));
            }
            // It was certainly not applied and no caller waits for it, or the store was silent for too long.
            lane.flight = None;
        }
        lane.waiting.retain(QueuedOperation::is_wanted);
        let count = lane.waiting.len().min(OPERATIONS_PER_CALL_MAX);
        let (operations, replies): (Vec<_>, Vec<_>) = lane
            .waiting
            .drain(..count)
            .map(|pending| (pending.operation, (pending.id, pending.reply)))
            .unzip();
        if operations.is_empty() {
            self.drop_if_empty(tag);
            return None;
        }
        self.sequence += 1;
        let operations = operations.into();
        let call = Arc::new(Call { tag: tag.clone(), sequence: self.sequence, again: false, operations });
        lane.flight = Some(InFlightCall {
            changes: self.denials.changes(tag),
            ..InFlightCall::new(Arc::clone(&call), replies, now)
        });
        Some(call)
    }

    fn answered(&mut self, (part, calls, results): Answers) {
        let queue = self.parts.of(&part);
        queue.groups_out = queue.groups_out.saturating_sub(1);
        if results.iter().any(Result::is_ok) {
            queue.answered_at = Some(Instant::now());
        }
        for (call, result) in calls.iter().zip(results) {
            let Some(lane) = self.lanes.get_mut(&call.tag) else { continue };
            let Some(flight) = lane.flight.take() else { continue };
            match result {
                Ok(outcomes) => self.succeeded(flight, outcomes),
                Err(error) => {
                    lane.note_failure(&error, Instant::now() + self.options.deadline);
                    self.failed(flight, error);
                }
            }
            self.go_on(&call.tag);
        }
    }

    fn succeeded(&mut self, flight: InFlightCall, outcomes: Outcomes) {
        let told = flight.replies.into_iter().zip(&*flight.call.operations).zip(outcomes);
        for (((_, mut reply), operation), outcome) in told {
            raise_if_over(operation, &outcome);
            self.denials.note_answer(operation, &outcome, flight.first_sent, flight.changes);
            self.denials.note_change(operation);
            if let Some(unheard) = reply.answer(outcome)
                && let Some(operation) = return_operation(operation, &unheard)
                && let Some(tag) = Tag::of(&operation)
            {
                self.enqueue_behind(tag, operation);
            }
        }
    }

    /// Queues an operation of the driver itself, which has no caller.
    fn enqueue_behind(&mut self, tag: Tag, operation: Operation) {
        self.denials.note_change(&operation);
        let lane = self.lanes.entry(tag.clone()).or_default();
        let idle = lane.is_empty();
        lane.waiting.push_back(QueuedOperation { id: u64::MAX, operation, reply: Reply::none() });
        if idle {
            self.make_ready(tag);
        }
    }

    fn failed(&mut self, mut flight: InFlightCall, error: StoreError) {
        flight.out = false;
        flight.unclear |= error.retry == Retry::Unclear;
        flight.failed_at = Instant::now();
        flight.send_at = flight.failed_at + self.backoff.after(flight.attempts);
        let resent_for = if flight.is_only_undone() { UNDO_FOR } else { RETRY_FOR };
        let in_time = flight.send_at.duration_since(flight.first_sent) < resent_for;
        let throttled = error.fault == Fault::Throttled && flight.attempts > THROTTLED_RETRIES_MAX;
        // A call that was certainly not applied is resent only while a caller waits; one that may have been is resent anyway.
        let wanted = flight.unclear || if throttled { flight.gives_back() } else { flight.is_wanted() };
        if error.retry != Retry::Useless && in_time && wanted {
            flight.attempts += 1;
            flight.last_error = Some(error);
            let call = Call { again: flight.unclear, ..(*flight.call).clone() };
            flight.call = Arc::new(call);
            let tag = flight.call.tag.clone();
            self.again.push(Reverse((flight.send_at, tag.clone())));
            self.lanes.entry(tag).or_default().flight = Some(flight);
            return;
        }
        if flight.unclear {
            tracing::warn!(%error, "gave up on a call with an unclear outcome; its units count as spent");
        }
        let retry = if flight.unclear { Retry::Unclear } else { error.retry };
        for (_, reply) in &mut flight.replies {
            reply.fail(StoreError { retry, ..error.clone() });
        }
    }

    /// After a call ends, its lane may send the operations queued meanwhile.
    fn go_on(&mut self, tag: &Tag) {
        let Some(lane) = self.lanes.get(tag) else { return };
        if lane.flight.is_none() && !lane.waiting.is_empty() {
            self.make_ready(tag.clone());
        } else {
            self.drop_if_empty(tag);
        }
    }

    fn drop_if_empty(&mut self, tag: &Tag) {
        if self.lanes.get(tag).is_some_and(Lane::is_empty) {
            self.lanes.remove(tag);
        }
    }

    /// No caller is left. Calls in flight and calls that return units get a moment to finish.
    async fn close(mut self) {
        let _ = tokio::time::timeout(CLOSING, async {
            loop {
                self.send_ready();
                if self.lanes.is_empty() {
                    return;
                }
                let wake_at = self.wake_at();
                tokio::select! {
                    Some(answers) = self.out.next(), if !self.out.is_empty() => self.answered(answers),
                    () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => self.wake(),
                    else => return,
                }
            }
        })
        .await;
    }
}

#[cfg(test)]
mod tests;
