//! Calls on their way: those that go to one server go together, so that the script reads its policies once for all.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tollway_core::{AccountKey, Outcomes, StoreError, Timestamp};
use tollway_remote::{Call, OPERATIONS_PER_CALL_MAX};

use crate::error::{answered, not_answered, not_understood};
use crate::link::error_code;
use crate::request::{Requests, Sending};
use crate::room::{NewKeys, Room};
use crate::run::outcomes_of_runs;
use crate::turn::{AnswersKept, Turn};
use crate::windows::Times;
use crate::{script, script_call};

/// A call on its way.
pub(crate) struct SentCall {
    pub(crate) call: Arc<Call>,
    /// Whose calendar windows go with it.
    times: Times,
    /// Whether the script itself is sent, for a server that has not seen it.
    by_text: bool,
    /// Whether the server had no room for what it would leave.
    pub(crate) found_full: bool,
    /// Whether the server could not read the script for a full one.
    pub(crate) script_is_unknown: bool,
    pub(crate) result: Option<Result<Outcomes, StoreError>>,
}

impl SentCall {
    pub(crate) fn new(call: Arc<Call>, now: Timestamp) -> Self {
        let times = Times::of(&call.operations, now);
        Self { call, times, by_text: false, found_full: false, script_is_unknown: false, result: None }
    }

    /// Takes in what came back: a result, or what to send with it the next time.
    fn read_answer(&mut self, answer: RedisResult<Value>) {
        match error_code(&answer) {
            Some("NOSCRIPT") => {
                self.by_text = true;
                return;
            }
            Some("OOM") => {
                self.found_full = true;
                return;
            }
            Some("ERR") if script_call::is_unreadable(&answer) => {
                (self.found_full, self.script_is_unknown) = (true, true);
                return;
            }
            _ => {}
        }
        let result = match answer {
            Ok(Value::BulkString(bytes)) => outcomes_of_runs(&bytes, &self.call.operations)
                .ok_or_else(|| not_understood(&format!("{} bytes", bytes.len()))),
            Ok(Value::Int(time)) => {
                self.times.add(Timestamp::from_micros(time.unsigned_abs()));
                return;
            }
            Ok(Value::ServerError(error)) => Err(answered(error.code(), error.details().unwrap_or_default())),
            Err(error) => Err(not_answered(&error)),
            Ok(other) => Err(not_understood(&format!("{other:?}").chars().take(80).collect::<String>())),
        };
        self.result = Some(result);
    }
}

/// Calls that are one command. The script holds up everybody else, so together they are no longer than one call may be.
pub(crate) struct CallBatch<'t>(Vec<&'t mut SentCall>);

impl<'t> CallBatch<'t> {
    /// Calls that have no result yet, bundled; on a Cluster each goes by itself, to the node that has its slot.
    pub(crate) fn all(sent_calls: &'t mut [SentCall], apart: bool) -> Vec<Self> {
        let mut batches: Vec<(usize, Self)> = Vec::new();
        for sent in sent_calls.iter_mut().filter(|sent| sent.result.is_none()) {
            let count = sent.call.operations.len();
            match batches.last_mut() {
                Some((sum, batch)) if !apart && *sum + count <= OPERATIONS_PER_CALL_MAX => {
                    *sum += count;
                    batch.0.push(sent);
                }
                _ => batches.push((count, Self(vec![sent]))),
            }
        }
        batches.into_iter().map(|(_, batch)| batch).collect()
    }

    /// The command, and the accounts that it names.
    pub(crate) fn command(
        &self,
        requests: &Requests,
        turn: Option<&Turn>,
        sending: Sending,
        room: &Room,
    ) -> (Cmd, Vec<AccountKey>) {
        let calls: Vec<&Call> = self.0.iter().map(|sent| &*sent.call).collect();
        let times = self.0.iter().map(|sent| &sent.times).fold(Times::default(), Times::and);
        let request = requests.of(&calls, turn, &times, sending, room);
        let by_text = self.0.iter().any(|sent| sent.by_text);
        let mut command = script::SCRIPT.call(by_text, matches!(sending.new_keys, NewKeys::Share { .. }));
        command.arg(request.keys.len()).arg(request.keys).arg(request.packed);
        (command, request.accounts)
    }

    /// What was written, if anything was: then the server keeps the answers of these calls.
    pub(crate) fn written<'a>(&self, answer: &'a RedisResult<Value>) -> Option<&'a [u8]> {
        let Ok(Value::Array(answers)) = answer else { return None };
        match answers.get(self.0.len()) {
            Some(Value::BulkString(written)) => Some(written),
            _ => None,
        }
    }

    /// For what the server keeps the answers of these calls, once they were read.
    pub(crate) fn answers_kept(&self) -> AnswersKept {
        let copied = self.0.iter().any(|sent| sent.call.again);
        if copied { AnswersKept::ForCopies } else { AnswersKept::InVain }
    }

    /// Tells each call what came back for it.
    pub(crate) fn read_answer(self, answer: RedisResult<Value>) {
        match answer {
            Ok(Value::Array(answers)) if (self.0.len()..=self.0.len() + 1).contains(&answers.len()) => {
                self.0.into_iter().zip(answers).for_each(|(sent, answer)| sent.read_answer(Ok(answer)));
            }
            answer => self.0.into_iter().for_each(|sent| sent.read_answer(answer.clone())),
        }
    }
}
