//! The writer thread: it owns the state file and serves all waiting commands under one lock.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tokio::sync::oneshot;
use tollway_core::{
    AccountList, Action, Begun, Name, Operation, Outcome, Setting, SettingChange, StoreError, StoreResult,
    Timestamp,
};

use super::bounds::COMBINED_MAX;
use super::error::FileError;
use super::lock::{Lock, LockGuard};
use super::state::State;
use crate::StateClock;

/// A command for the writer, with the channel of its answer.
pub(super) enum WriterCommand {
    /// Apply a batch.
    Apply(Vec<Operation>, oneshot::Sender<StoreResult>),
    /// Read all settings.
    Settings(oneshot::Sender<Result<Vec<Setting>, StoreError>>),
    /// List accounts.
    Accounts(Option<Name>, usize, oneshot::Sender<Result<AccountList, StoreError>>),
    /// Change one setting.
    Change(SettingChange, oneshot::Sender<Result<(), StoreError>>),
}

/// The state of the writer thread.
pub(super) struct Writer {
    pub(super) lock: Lock,
    pub(super) state: State,
    pub(super) clock: Arc<StateClock>,
}

/// An answer that may be sent only after the changes are written.
type PendingAnswer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

impl Writer {
    /// Serves until the store is dropped and every accepted command is answered.
    pub(super) fn run(mut self, queue: Receiver<WriterCommand>) {
        while let Ok(first) = queue.recv() {
            let more = queue.try_iter().take(COMBINED_MAX.saturating_sub(1));
            self.serve(std::iter::once(first).chain(more).collect());
        }
    }

    fn serve(&mut self, commands: Vec<WriterCommand>) {
        let Self { lock, state, clock } = self;
        let ready = lock.acquire().and_then(|guard| state.refresh(&guard).map(|()| guard));
        let guard = match ready {
            Ok(guard) => guard,
            Err(error) => return refuse(commands, &error),
        };
        let clock = state.time(clock);
        let now = state.time_of_decisions(clock);
        let mut decided = Vec::with_capacity(commands.len());
        for command in commands {
            decided.push(decide(command, state, now, clock, &guard));
            if state.should_write() {
                write_and_answer(state, &mut decided, now, &guard);
            }
        }
        write_and_answer(state, &mut decided, now, &guard);
        state.compact_if_worthwhile(now, &guard);
    }
}

/// Runs a command in memory, and returns the answer to send once its changes are written.
fn decide(
    command: WriterCommand,
    state: &mut State,
    now: Timestamp,
    clock: Timestamp,
    guard: &LockGuard<'_>,
) -> PendingAnswer {
    match command {
        WriterCommand::Apply(batch, reply) => {
            let mut outcomes = state.apply(&batch, now, guard).map_err(|error| error.answer());
            for (operation, outcome) in batch.iter().zip(outcomes.iter_mut().flatten()) {
                count_wait_from(clock, &operation.action, outcome);
            }
            answer_later(reply, outcomes)
        }
        WriterCommand::Settings(reply) => {
            let settings = state.settings(guard).map(<[Setting]>::to_vec);
            answer_later(reply, settings.map_err(|error| error.answer()))
        }
        WriterCommand::Accounts(policy, at_most, reply) => {
            let listed = state.list(policy.as_ref(), at_most, now, guard);
            answer_later(reply, listed.map_err(|error| error.answer()))
        }
        WriterCommand::Change(change, reply) => answer_later(reply, state.change(change, now, guard)),
    }
}

/// Counts the wait of a caller that may not go on from the clock. A clock that was set back is behind the account, whose
/// time stands still until the clock gets there: counted from the account's time, every retry would get the same wait.
fn count_wait_from(clock: Timestamp, action: &Action, outcome: &mut Outcome) {
    match (outcome, action) {
        (Outcome::Decided(decision) | Outcome::Begun(Begun::Again(decision)), _)
            if !decision.is_granted() =>
        {
            decision.now = decision.now.min(clock);
        }
        (Outcome::Begun(Begun::Early(wait)), Action::Begin(booking, _)) => *wait = booking.at.since(clock),
        _ => {}
    }
}

fn answer_later<T: Send + 'static>(
    reply: oneshot::Sender<Result<T, StoreError>>,
    answer: Result<T, StoreError>,
) -> PendingAnswer {
    Box::new(|written| {
        // The caller may have dropped its answer. The operation is applied anyway, as the contract of `Store` says.
        let _ = reply.send(answer.and_then(|answer| written.map(|()| answer)));
    })
}

/// Writes the changes, then sends the answers. If the write fails, every answer is an error, denials too: they were
/// decided after takes that were not written.
fn write_and_answer(
    state: &mut State,
    decided: &mut Vec<PendingAnswer>,
    now: Timestamp,
    guard: &LockGuard<'_>,
) {
    let written = state.write(now, guard).map_err(|error| error.answer());
    for answer in decided.drain(..) {
        answer(written.clone());
    }
}

fn refuse(commands: Vec<WriterCommand>, error: &FileError) {
    for command in commands {
        let error = error.answer();
        // The caller may have dropped its answer.
        let _ = match command {
            WriterCommand::Apply(_, reply) => reply.send(Err(error)).is_ok(),
            WriterCommand::Settings(reply) => reply.send(Err(error)).is_ok(),
            WriterCommand::Accounts(_, _, reply) => reply.send(Err(error)).is_ok(),
            WriterCommand::Change(_, reply) => reply.send(Err(error)).is_ok(),
        };
    }
}
