//! Sends calls to the layout's script and reads its answers.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tollway_core::{Clock, Outcomes, StoreError};
use tollway_remote::{Call, Link, OPERATIONS_PER_CALL_MAX};

use super::replaced::ReplacedLog;
use super::request::Request;
use super::script;
use crate::address::Address;
use crate::clock::WallClock;
use crate::connection::Connections;
use crate::error::{answered, not_answered, not_understood};
use crate::keys::Keys;
use crate::link::{draw_writer, error_code, is_broken};
use crate::reply;

/// How often a call is sent: once, and once more to a server that has not seen the script.
const ROUNDS_MAX: usize = 2;

/// Sends calls to the script that counts under the keys of `consumers`. One process has one; its name as a writer is
/// drawn at random.
pub(crate) struct ConsumersLink {
    connections: Connections,
    /// The keys for ids, refunds and answers.
    companions: Keys,
    replaced: ReplacedLog,
}

impl ConsumersLink {
    /// A link to the store at this address. It connects with the first call.
    pub(crate) fn new(address: &Address) -> Result<Self, StoreError> {
        // A server that does not answer is noticed while there is time to ask once more.
        let connections = Connections::new(address, address.deadline / 2)?;
        let companions = Keys::new(&address.prefix, draw_writer());
        Ok(Self { connections, companions, replaced: ReplacedLog::default() })
    }

    /// Sends what has no result yet, once.
    async fn round(&self, sent_calls: &mut [SentCall]) {
        let mut open: Vec<&mut SentCall> =
            sent_calls.iter_mut().filter(|sent| sent.result.is_none()).collect();
        if open.is_empty() {
            return;
        }
        let mut connection = match self.connections.get().await {
            Ok(connection) => connection,
            Err(error) => return open.iter_mut().for_each(|sent| sent.result = Some(Err(error.clone()))),
        };
        let batches = batched(open, connection.has_nodes());
        let answers = connection.send(batches.iter().map(|batch| command(batch)).collect()).await;
        if answers.iter().any(is_broken) {
            self.connections.give_up(&connection).await;
        }
        batches.into_iter().zip(answers).for_each(|(batch, answer)| read_answer(batch, answer));
    }
}

impl Link for ConsumersLink {
    /// Fewer than others: each check is long, and the more go together, the less each costs.
    const GROUPS_OUT_MAX: usize = 2;

    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        let mut sent_calls: Vec<SentCall> =
            calls.into_iter().map(|call| SentCall::new(call, &self.companions)).collect();
        for _ in 0..ROUNDS_MAX {
            self.round(&mut sent_calls).await;
        }
        for key in sent_calls.iter().flat_map(SentCall::replaced_keys) {
            self.replaced.note(key, WallClock.now());
        }
        let unknown = || Err(not_understood("it does not know the script that it was sent"));
        sent_calls.into_iter().map(|sent| sent.result.unwrap_or_else(unknown)).collect()
    }
}

/// Calls that go as one command; on a Cluster each goes by itself, to the node that has its slot. The script holds up everybody
/// else, so together they are no longer than one call may be.
fn batched(open: Vec<&mut SentCall>, apart: bool) -> Vec<Vec<&mut SentCall>> {
    let mut batches: Vec<(usize, Vec<&mut SentCall>)> = Vec::new();
    for sent in open {
        let count = sent.call.operations.len();
        match batches.last_mut() {
            Some((sum, batch)) if !apart && *sum + count <= OPERATIONS_PER_CALL_MAX => {
                *sum += count;
                batch.push(sent);
            }
            _ => batches.push((count, vec![sent])),
        }
    }
    batches.into_iter().map(|(_, batch)| batch).collect()
}

fn command(batch: &[&mut SentCall]) -> Cmd {
    let by_text = batch.iter().any(|sent| sent.by_text);
    let mut command = redis::cmd(if by_text { "EVAL" } else { "EVALSHA" });
    command.arg(if by_text { script::TEXT } else { &**script::HASH });
    command.arg(batch.iter().map(|sent| sent.request.keys.len()).sum::<usize>());
    for sent in batch {
        command.arg(&sent.request.keys);
    }
    for Request { keys, sequence, permits, packed } in batch.iter().map(|sent| &sent.request) {
        command.arg(keys.len()).arg(*sequence).arg(permits).arg(packed);
    }
    command
}

/// Tells each call what came back for it.
fn read_answer(batch: Vec<&mut SentCall>, answer: RedisResult<Value>) {
    match answer {
        Ok(Value::Array(answers)) if answers.len() == batch.len() => {
            batch.into_iter().zip(answers).for_each(|(sent, answer)| sent.read_answer(Ok(answer)));
        }
        answer => batch.into_iter().for_each(|sent| sent.read_answer(answer.clone())),
    }
}

/// A call on its way.
struct SentCall {
    call: Arc<Call>,
    request: Request,
    /// Whether the script itself is sent, for a server that has not seen it.
    by_text: bool,
    /// The call's keys that held no count and were replaced, counted from 1.
    replaced: Vec<Value>,
    result: Option<Result<Outcomes, StoreError>>,
}

impl SentCall {
    fn new(call: Arc<Call>, companions: &Keys) -> Self {
        let (request, result) = match Request::of(&call, companions) {
            Ok(request) => (request, None),
            Err(error) => (Request::default(), Some(Err(error))),
        };
        Self { call, request, by_text: false, replaced: Vec::new(), result }
    }

    /// Takes in what came back: a result, or that the script must be sent.
    fn read_answer(&mut self, answer: RedisResult<Value>) {
        if error_code(&answer) == Some("NOSCRIPT") {
            self.by_text = true;
            return;
        }
        let answer = match answer {
            Ok(Value::Array(mut parts)) if !parts.is_empty() => {
                self.replaced = parts.split_off(1);
                Ok(parts.remove(0))
            }
            answer => answer,
        };
        self.result = Some(match answer {
            Ok(Value::BulkString(bytes)) => reply::outcomes(&bytes, &self.call.operations)
                .ok_or_else(|| not_understood(&format!("{} bytes", bytes.len()))),
            Ok(Value::ServerError(error)) => Err(answered(error.code(), error.details().unwrap_or_default())),
            Err(error) => Err(not_answered(&error)),
            Ok(other) => Err(not_understood(&format!("{other:?}").chars().take(80).collect::<String>())),
        });
    }

    fn replaced_keys(&self) -> impl Iterator<Item = &str> {
        let index = |number: &Value| match number {
            Value::Int(number) => usize::try_from(*number).ok()?.checked_sub(1),
            _ => None,
        };
        self.replaced
            .iter()
            .filter_map(index)
            .filter_map(|index| self.request.keys.get(index))
            .map(String::as_str)
    }
}
