//! The thread that owns the state file: it serves all commands that wait under one lock.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tokio::sync::oneshot;
use tollway_core::{Clock, Operation, Setting, SettingChange, StoreError, StoreResult, Timestamp};

use super::bounds::COMBINED_MAX;
use super::error::FileError;
use super::lock::{Held, Lock};
use super::state::State;

/// What is asked of the writer, and where the answer is awaited.
pub(super) enum WriterCommand {
    /// To apply a batch.
    Apply(Vec<Operation>, oneshot::Sender<StoreResult>),
    /// To read the limits that are set.
    Settings(oneshot::Sender<Result<Vec<Setting>, StoreError>>),
    /// To change one of them.
    Change(SettingChange, oneshot::Sender<Result<(), StoreError>>),
}

/// What the thread owns.
pub(super) struct Writer {
    pub(super) lock: Lock,
    pub(super) state: State,
    pub(super) clock: Arc<dyn Clock>,
}

/// An answer whose caller must not hear of it before it is written.
type Decided = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

impl Writer {
    /// Serves until the store is dropped and everything it had accepted is answered.
    pub(super) fn run(mut self, queue: Receiver<WriterCommand>) {
        while let Ok(first) = queue.recv() {
            let more = queue.try_iter().take(COMBINED_MAX.saturating_sub(1));
            self.serve(std::iter::once(first).chain(more).collect());
        }
    }

    fn serve(&mut self, commands: Vec<WriterCommand>) {
        let Self { lock, state, clock } = self;
        let ready = lock.hold().and_then(|held| state.refresh(&held).map(|()| held));
        let held = match ready {
            Ok(held) => held,
            Err(error) => return refuse(commands, &error),
        };
        let now = state.time(clock.now());
        let mut decided = Vec::with_capacity(commands.len());
        for command in commands {
            decided.push(decide(command, state, now, &held));
            if state.should_write() {
                write_and_answer(state, &mut decided, now, &held);
            }
        }
        write_and_answer(state, &mut decided, now, &held);
        state.tidy(now, &held);
    }
}

/// Does what is asked, in memory, and says how to answer once it is written.
fn decide(command: WriterCommand, state: &mut State, now: Timestamp, held: &Held<'_>) -> Decided {
    match command {
        WriterCommand::Apply(batch, reply) => {
            let outcomes = state.apply(&batch, now, held).map_err(|error| error.answer());
            answer_later(reply, outcomes)
        }
        WriterCommand::Settings(reply) => {
            let settings = state.settings(held).map(<[Setting]>::to_vec);
            answer_later(reply, settings.map_err(|error| error.answer()))
        }
        WriterCommand::Change(change, reply) => answer_later(reply, state.change(change, now, held)),
    }
}

fn answer_later<T: Send + 'static>(
    reply: oneshot::Sender<Result<T, StoreError>>,
    answer: Result<T, StoreError>,
) -> Decided {
    Box::new(|written| {
        // Nobody listens any more: it was applied all the same, as the contract of stores has it.
        let _ = reply.send(answer.and_then(|answer| written.map(|()| answer)));
    })
}

/// Writes what was decided and only then answers. What could not be written has not happened, denials included: they
/// were decided after takes that have not happened.
fn write_and_answer(state: &mut State, decided: &mut Vec<Decided>, now: Timestamp, held: &Held<'_>) {
    let written = state.write(now, held).map_err(|error| error.answer());
    for answer in decided.drain(..) {
        answer(written.clone());
    }
}

fn refuse(commands: Vec<WriterCommand>, error: &FileError) {
    for command in commands {
        let error = error.answer();
        // Nobody may be listening any more.
        let _ = match command {
            WriterCommand::Apply(_, reply) => reply.send(Err(error)).is_ok(),
            WriterCommand::Settings(reply) => reply.send(Err(error)).is_ok(),
            WriterCommand::Change(_, reply) => reply.send(Err(error)).is_ok(),
        };
    }
}
