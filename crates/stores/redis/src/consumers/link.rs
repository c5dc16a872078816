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
use crate::connection::Connection;
use crate::error::{answered, full, not_answered, not_understood};
use crate::keys::Keys;
use crate::link::{draw_writer, error_code};
use crate::memory_watch;
use crate::node::Node;
use crate::reply;
use crate::room::{NewKeys, Room};
use crate::servers::Servers;

/// How often a call is sent: once, once more to a server that has not seen the script, and as often to a full one.
const ROUNDS_MAX: usize = 4;

/// Sends calls to the script that counts under the keys of `consumers`. One process has one; its name as a writer is
/// drawn at random.
pub(crate) struct ConsumersLink {
    servers: Arc<Servers>,
    /// The keys for ids, refunds and answers.
    companions: Keys,
    replaced: ReplacedLog,
    room: Arc<Room>,
}

impl ConsumersLink {
    /// A link to the store at this address. It connects with the first call.
    pub(crate) fn new(address: &Address) -> Result<Self, StoreError> {
        // A server that does not answer is noticed while there is time to ask once more.
        let servers = Arc::new(Servers::new(address, address.deadline / 2)?);
        let companions = Keys::new(&address.prefix, draw_writer());
        let room = Arc::new(Room::new());
        Ok(Self { servers, companions, replaced: ReplacedLog::default(), room })
    }

    /// What it knows about the room of its server.
    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Sends what has no result yet, once.
    async fn round(&self, sent_calls: &mut [SentCall]) {
        let mut open: Vec<&mut SentCall> =
            sent_calls.iter_mut().filter(|sent| sent.result.is_none()).collect();
        if open.is_empty() {
            return;
        }
        let (node, mut connection) = match self.connect().await {
            Ok(connected) => connected,
            Err(error) => return open.iter_mut().for_each(|sent| sent.result = Some(Err(error.clone()))),
        };
        let new_keys = self.room.new_keys(open.iter().map(|sent| &*sent.call));
        open.iter_mut().for_each(|sent| sent.ask(&self.companions, new_keys));
        open.retain(|sent| sent.result.is_none());
        let batches = batched(open);
        let commands = batches.iter().map(|batch| command(batch, new_keys)).collect();
        let answers = connection.send(commands).await;
        self.servers.note_answers(&node, &connection, &answers).await;
        batches.into_iter().zip(answers).for_each(|(batch, answer)| read_answer(batch, answer));
        self.note_full(sent_calls, new_keys);
    }

    /// The one server: this layout is refused on a Cluster.
    async fn connect(&self) -> Result<(Arc<Node>, Connection), StoreError> {
        let node = self.servers.of_key("").await?;
        let connection = node.get().await?;
        Ok((node, connection))
    }

    /// What a full server did not write is sent as to a full server, or fails if that is how it was sent.
    fn note_full(&self, sent_calls: &mut [SentCall], sent_as: NewKeys) {
        let was_full = matches!(sent_as, NewKeys::Share { .. });
        if was_full {
            let decided = sent_calls.iter().filter(|sent| matches!(sent.result, Some(Ok(_))));
            self.room.count_while_full(decided.map(|sent| sent.call.operations.len()).sum());
        }
        let is_full = sent_calls.iter().any(|sent| sent.found_full);
        let gives_up = is_full && (was_full || !self.room.note_full());
        for sent in sent_calls.iter_mut().filter(|sent| sent.found_full) {
            sent.found_full = false;
            sent.result = gives_up.then(|| Err(full()));
        }
    }
}

impl Link for ConsumersLink {
    /// Fewer than others: each check is long, and the more go together, the less each costs.
    const GROUPS_OUT_MAX: usize = 2;

    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        memory_watch::start(&self.room, &self.servers, || self.companions.shared_notice());
        let mut sent_calls: Vec<SentCall> = calls.into_iter().map(SentCall::new).collect();
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

/// Calls that go as one command. The script holds up everybody else, so together they are no longer than one call may be.
fn batched(open: Vec<&mut SentCall>) -> Vec<Vec<&mut SentCall>> {
    let mut batches: Vec<(usize, Vec<&mut SentCall>)> = Vec::new();
    for sent in open {
        let count = sent.call.operations.len();
        match batches.last_mut() {
            Some((sum, batch)) if *sum + count <= OPERATIONS_PER_CALL_MAX => {
                *sum += count;
                batch.push(sent);
            }
            _ => batches.push((count, vec![sent])),
        }
    }
    batches.into_iter().map(|(_, batch)| batch).collect()
}

fn command(batch: &[&mut SentCall], new_keys: NewKeys) -> Cmd {
    let by_text = batch.iter().any(|sent| sent.by_text);
    let mut command = script::SCRIPT.call(by_text, matches!(new_keys, NewKeys::Share { .. }));
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
    /// As what the request was made.
    made_as: Option<NewKeys>,
    /// Whether the server had no room for what it would leave.
    found_full: bool,
    /// Whether the script itself is sent, for a server that has not seen it.
    by_text: bool,
    /// The call's keys that held no count and were replaced, counted from 1.
    replaced: Vec<Value>,
    result: Option<Result<Outcomes, StoreError>>,
}

impl SentCall {
    fn new(call: Arc<Call>) -> Self {
        let (request, replaced) = (Request::default(), Vec::new());
        Self { call, request, made_as: None, found_full: false, by_text: false, replaced, result: None }
    }

    /// Makes the request, unless it is made already.
    fn ask(&mut self, companions: &Keys, new_keys: NewKeys) {
        if self.made_as == Some(new_keys) {
            return;
        }
        self.made_as = Some(new_keys);
        match Request::of(&self.call, companions, new_keys) {
            Ok(request) => self.request = request,
            Err(error) => self.result = Some(Err(error)),
        }
    }

    /// Takes in what came back: a result, or that the script must be sent.
    fn read_answer(&mut self, answer: RedisResult<Value>) {
        if error_code(&answer) == Some("NOSCRIPT") {
            self.by_text = true;
            return;
        }
        if error_code(&answer) == Some("OOM") {
            self.found_full = true;
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
