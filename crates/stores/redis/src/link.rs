//! Sends calls to the script and reads its answers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{RedisResult, Value};
use tollway_core::{AccountKey, Clock, Operation, Outcomes, Part, StoreError, Timestamp};
use tollway_remote::{Call, Link};

use crate::address::Address;
use crate::call_batch::{CallBatch, SentCall, Together};
use crate::clock::WallClock;
use crate::cluster::NodeParts;
use crate::copies::Copies;
use crate::error::{full, not_understood};
use crate::keys::Keys;
use crate::memory_watch;
use crate::node::Node;
use crate::request::{GRACE, Requests, Sending};
use crate::room::{NewKeys, Room};
use crate::servers::Servers;
use crate::shared_account::Slots;
use crate::turn::{Turn, Turns};
use crate::windows::Calendars;

/// How often a call is sent until the script has all it needs: its own text, and the calendar windows it requests.
const ROUNDS_MAX: usize = 8;

/// How long accounts under a test clock are kept beyond their expiry: that clock may stand still.
const TEST_GRACE: Duration = Duration::from_secs(600);

/// Sends calls to a script in Redis. One process has one; its name as a writer is drawn at random.
pub struct RedisLink {
    servers: Arc<Servers>,
    parts: Option<NodeParts>,
    requests: Requests,
    turns: Turns,
    room: Arc<Room>,
    /// A clock in a test's hand, in place of the server's.
    test_clock: Option<Arc<dyn Clock>>,
}

impl RedisLink {
    /// A link to the store at this address. It connects with the first call.
    pub fn new(address: &Address) -> Result<Self, StoreError> {
        Self::with_clock(address, None)
    }

    /// The same for tests: the store's time is this clock's, not the server's.
    pub fn with_test_clock(address: &Address, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::with_clock(address, Some(clock))
    }

    fn with_clock(address: &Address, test_clock: Option<Arc<dyn Clock>>) -> Result<Self, StoreError> {
        let grace = if test_clock.is_some() { TEST_GRACE } else { GRACE };
        // A server that does not answer is noticed while there is time to ask once more.
        let servers = Arc::new(Servers::new(address, address.deadline / 2)?);
        let keys = Keys::new(&address.prefix, draw_writer());
        Ok(Self {
            parts: servers.cluster().map(|cluster| NodeParts::new(Arc::clone(cluster), keys.clone())),
            servers,
            requests: Requests { keys, grace, calendars: Calendars::default(), copies: Copies::default() },
            turns: Turns::default(),
            room: Arc::new(Room::new()),
            test_clock,
        })
    }

    /// What it knows about the room of its server.
    pub(crate) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// The nodes of a Cluster, each of which is away by itself.
    pub(crate) fn parts(&self) -> Option<&NodeParts> {
        self.parts.as_ref()
    }

    /// Sends what has no result yet, once.
    async fn round(&self, sent_calls: &mut [SentCall]) {
        let open = sent_calls.iter().filter(|sent| sent.result.is_none());
        let new_keys = self.room.new_keys(open.map(|sent| &*sent.call));
        let apart = self.servers.cluster().is_some() && !self.requests.keys.in_one_slot();
        let slots = if apart { Slots::OfSubject } else { Slots::One };
        let now = self.test_clock.as_ref().map(|clock| clock.now());
        let sending = Sending { new_keys, slots, now };
        let mut groups: Vec<(Arc<Node>, Vec<&mut SentCall>)> = Vec::new();
        for sent in sent_calls.iter_mut().filter(|sent| sent.result.is_none()) {
            match self.node_of(sent).await {
                Ok(node) => match groups.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &node)) {
                    Some((_, group)) => group.push(sent),
                    None => groups.push((node, vec![sent])),
                },
                Err(error) => sent.result = Some(Err(error)),
            }
        }
        join_all(groups.into_iter().map(|(node, group)| self.send_to(node, group, sending))).await;
        self.note_full(sent_calls, new_keys);
    }

    /// The server that has the keys of a call, or asked for it.
    async fn node_of(&self, sent: &SentCall) -> Result<Arc<Node>, StoreError> {
        match (&*self.servers, &sent.ask_at) {
            (Servers::One(node), _) | (_, Some(node)) => Ok(Arc::clone(node)),
            (servers, None) => servers.of_key(&self.requests.keys.account(sent.call.tag.account())).await,
        }
    }

    /// Sends calls to one server.
    async fn send_to(&self, node: Arc<Node>, mut calls: Vec<&mut SentCall>, sending: Sending) {
        let mut connection = match node.get().await {
            Ok(connection) => connection,
            Err(error) => {
                self.servers.refresh();
                return calls.iter_mut().for_each(|sent| sent.result = Some(Err(error.clone())));
            }
        };
        let batches = CallBatch::all(calls, self.together(&node, sending));
        // The nodes of a Cluster keep the answer of each call by itself.
        let turn = |_| match &*self.servers {
            Servers::One(_) => Some(self.turns.next(connection.number(), connection.primary())),
            Servers::Cluster(_) => None,
        };
        let turns: Vec<Option<Turn>> = batches.iter().map(turn).collect();
        let (mut commands, mut last, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
        for (batch, turn) in batches.iter().zip(&turns) {
            let (of_batch, of_command) = batch.commands(&self.requests, turn.as_ref(), sending, &self.room);
            commands.extend(of_batch);
            last.push(commands.len());
            accounts.push(of_command);
        }
        let mut answers = connection.send(commands).await;
        self.servers.note_answers(&node, &connection, &answers).await;
        // Each batch has the answer to the last of its commands.
        let mut number = 0usize;
        answers.retain(|_| {
            number = number.saturating_add(1);
            last.binary_search(&number).is_ok()
        });
        for (((batch, turn), accounts), answer) in batches.iter().zip(&turns).zip(&accounts).zip(&answers) {
            self.note_written(batch, turn.as_ref(), accounts, answer);
        }
        for (batch, answer) in batches.into_iter().zip(answers) {
            batch.read_answer(answer, &node, self.servers.cluster());
        }
    }

    /// How calls go together to this server. The script for a full server has a `#!` line, so that its command names all keys.
    fn together(&self, node: &Node, sending: Sending) -> Together {
        let in_full = matches!(sending.new_keys, NewKeys::Share { .. });
        match sending.slots {
            Slots::One => Together::Named,
            Slots::OfSubject if in_full || !node.takes_unnamed_keys() => Together::Never,
            Slots::OfSubject => Together::AcrossSlots,
        }
    }

    /// Learns what a command wrote, and notes that its answers were read.
    fn note_written(
        &self,
        batch: &CallBatch<'_>,
        turn: Option<&Turn>,
        accounts: &[AccountKey],
        answer: &RedisResult<Value>,
    ) {
        let (Some(turn), Some(written)) = (turn, batch.written(answer)) else { return };
        self.turns.note_read(turn, batch.answers_kept());
        if let Some(primary) = turn.primary {
            self.requests.copies.learn(primary, accounts, written);
        }
    }

    /// What a full server did not write is sent as to a full server, or fails if that is how it was sent.
    fn note_full(&self, sent_calls: &mut [SentCall], sent_as: NewKeys) {
        let was_full = matches!(sent_as, NewKeys::Share { .. });
        if was_full {
            let decided = sent_calls.iter().filter(|sent| matches!(sent.result, Some(Ok(_))));
            self.room.count_while_full(decided.map(|sent| sent.call.operations.len()).sum());
        }
        if was_full && sent_calls.iter().any(|sent| sent.script_is_unknown) {
            self.room.note_old();
        }
        let is_full = sent_calls.iter().any(|sent| sent.found_full);
        let gives_up = is_full && (was_full || !self.room.note_full());
        for sent in sent_calls.iter_mut().filter(|sent| sent.found_full) {
            sent.found_full = false;
            sent.result = gives_up.then(|| Err(full()));
        }
    }

    fn now(&self) -> Timestamp {
        self.test_clock.as_ref().map_or_else(|| WallClock.now(), |clock| clock.now())
    }
}

impl Link for RedisLink {
    fn part_of(&self, operation: &Operation) -> Part {
        match (&self.parts, operation.charges.first()) {
            (Some(parts), Some(charge)) => parts.part_of(&charge.key()),
            _ => Part::WHOLE,
        }
    }

    async fn send(self: Arc<Self>, calls: Vec<Arc<Call>>) -> Vec<Result<Outcomes, StoreError>> {
        memory_watch::start(&self.room, &self.servers, || self.requests.keys.shared_notice());
        let now = self.now();
        let mut sent_calls: Vec<SentCall> = calls.into_iter().map(|call| SentCall::new(call, now)).collect();
        for _ in 0..ROUNDS_MAX {
            if sent_calls.iter().all(|sent| sent.result.is_some()) {
                break;
            }
            self.round(&mut sent_calls).await;
        }
        let unfinished = || Err(not_understood("the script requests one calendar window after another"));
        sent_calls.into_iter().map(|sent| sent.result.unwrap_or_else(unfinished)).collect()
    }
}

/// What the server calls its error, if it answered with one.
pub(crate) fn error_code(answer: &RedisResult<Value>) -> Option<&str> {
    match answer {
        Ok(Value::ServerError(error)) => Some(error.code()),
        Ok(_) => None,
        Err(error) => error.code(),
    }
}

/// What the server says about its error, if it answered with one.
pub(crate) fn error_detail(answer: &RedisResult<Value>) -> Option<&str> {
    match answer {
        Ok(Value::ServerError(error)) => error.details(),
        Ok(_) => None,
        Err(error) => error.detail(),
    }
}

/// Whether the connection is of no use any more: it failed, or leads to a server that is no longer the master.
pub(crate) fn is_broken(answer: &RedisResult<Value>) -> bool {
    let demoted = |value: &Value| matches!(value, Value::ServerError(error) if error.code() == "READONLY");
    match answer {
        Ok(Value::Array(answers)) => answers.iter().any(demoted),
        Ok(value) => demoted(value),
        Err(error) => error.code().is_none_or(|code| code == "READONLY"),
    }
}

/// A random id for this writer.
pub(crate) fn draw_writer() -> u128 {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}
