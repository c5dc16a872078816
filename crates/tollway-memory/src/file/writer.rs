//! The thread that owns the state file: it serves all requests that wait under one lock.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tokio::sync::oneshot;
use tollway_core::{Clock, StoreResult, Timestamp};

use super::bounds::COMBINED_MAX;
use super::error::FileError;
use super::lock::{Held, Lock};
use super::owned::OwnedOperation;
use super::state::State;

/// A batch, and where its outcomes are awaited.
pub(super) struct Request {
    pub(super) batch: Vec<OwnedOperation>,
    pub(super) reply: oneshot::Sender<StoreResult>,
}

/// What the thread owns.
pub(super) struct Writer {
    pub(super) lock: Lock,
    pub(super) state: State,
    pub(super) clock: Arc<dyn Clock>,
}

/// A batch that was decided; its caller must not hear of it before it is written.
type Decided = (oneshot::Sender<StoreResult>, Result<tollway_core::Outcomes, FileError>);

impl Writer {
    /// Serves until the store is dropped and everything it had accepted is answered.
    pub(super) fn run(mut self, queue: Receiver<Request>) {
        while let Ok(first) = queue.recv() {
            let more = queue.try_iter().take(COMBINED_MAX.saturating_sub(1));
            self.serve(std::iter::once(first).chain(more).collect());
        }
    }

    fn serve(&mut self, requests: Vec<Request>) {
        let Self { lock, state, clock } = self;
        let ready = lock.hold().and_then(|held| state.refresh(&held).map(|()| held));
        let held = match ready {
            Ok(held) => held,
            Err(error) => return refuse(requests, &error),
        };
        let now = state.time(clock.now());
        let mut decided = Vec::with_capacity(requests.len());
        for Request { batch, reply } in requests {
            decided.push((reply, state.apply(&batch, now, &held)));
            if state.should_write() {
                write_and_answer(state, &mut decided, now, &held);
            }
        }
        write_and_answer(state, &mut decided, now, &held);
        state.tidy(now, &held);
    }
}

/// Writes what was decided and only then answers. What could not be written has not happened, denials included: they
/// were decided after takes that have not happened.
fn write_and_answer(state: &mut State, decided: &mut Vec<Decided>, now: Timestamp, held: &Held<'_>) {
    let written = state.write(now, held).map_err(|error| error.answer());
    for (reply, outcomes) in decided.drain(..) {
        let answer = outcomes.map_err(|error| error.answer());
        // Nobody listens any more: it was applied all the same, as the contract of stores has it.
        let _ = reply.send(answer.and_then(|outcomes| written.clone().map(|()| outcomes)));
    }
}

fn refuse(requests: Vec<Request>, error: &FileError) {
    for request in requests {
        let _ = request.reply.send(Err(error.answer()));
    }
}
