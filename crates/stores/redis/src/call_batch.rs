//! Calls on their way: those that go to one server go together, so that the script reads its policies once for all.
//!
//! A node of a Cluster takes a command only if the keys that it names are in one slot. So a command with calls of several slots
//! names one key, which sends it to its node, and the script reads the others by its argument. Redis and Valkey allow that to
//! scripts without a `#!` line. A call whose keys are not there is answered with an error of its own, and sent again by itself:
//! then the node says where they are.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};
use tollway_core::{AccountKey, Outcomes, StoreError, Timestamp};
use tollway_remote::{Call, OPERATIONS_PER_CALL_MAX};

use crate::cluster::{Cluster, Redirect};
use crate::error::{answered, not_answered, not_understood};
use crate::link::{error_code, error_detail};
use crate::node::Node;
use crate::pack::Packer;
use crate::request::{Requests, Sending};
use crate::room::{NewKeys, Room};
use crate::run::outcomes_of_runs;
use crate::turn::{AnswersKept, Turn};
use crate::windows::Times;
use crate::{script, script_call};

/// How often a call is sent to another node before its error is its answer.
const REDIRECTS_MAX: usize = 5;

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
    /// Whether it goes as a command of its own, so that the node says where its slot is.
    alone: bool,
    /// How often it was sent elsewhere.
    redirects: usize,
    /// Where it goes once, because its slot is on its way there.
    pub(crate) ask_at: Option<Arc<Node>>,
    pub(crate) result: Option<Result<Outcomes, StoreError>>,
}

impl SentCall {
    pub(crate) fn new(call: Arc<Call>, now: Timestamp) -> Self {
        let times = Times::of(&call.operations, now);
        Self {
            call,
            times,
            by_text: false,
            found_full: false,
            script_is_unknown: false,
            alone: false,
            redirects: 0,
            ask_at: None,
            result: None,
        }
    }

    /// Takes in what a node of a Cluster said about the place of its keys. False: it said nothing about that.
    fn read_place(&mut self, answer: &RedisResult<Value>, sent: &SentTo<'_>, cluster: &Arc<Cluster>) -> bool {
        self.ask_at = None;
        let redirect = Redirect::of(answer, sent.node);
        if sent.form == Form::AcrossSlots {
            // A redirect is that of the one key that the command names: each call asks for itself.
            let is_refused = redirect.is_some() || error_code(answer) == Some("ERR");
            if is_refused && error_detail(answer).is_some_and(refuses_unnamed_keys) {
                sent.node.note_unnamed_keys_refused();
            }
            self.alone |= is_refused;
            return is_refused;
        }
        let Some(redirect) = redirect.filter(|_| self.redirects < REDIRECTS_MAX) else { return false };
        self.redirects = self.redirects.saturating_add(1);
        self.ask_at = cluster.follow(redirect);
        self.alone = self.ask_at.is_some();
        true
    }

    /// Takes in what came back: a result, or what to send with it the next time.
    fn read_answer(&mut self, answer: RedisResult<Value>, sent: &SentTo<'_>) {
        if let Some(cluster) = sent.cluster
            && self.read_place(&answer, sent, cluster)
        {
            return;
        }
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

/// How the keys of a command are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The command names all of them.
    Named,
    /// The command names the first; its calls are in several slots of one node.
    AcrossSlots,
}

/// How calls may go together to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// As commands that name all keys.
    Named,
    /// On a Cluster, across its slots.
    AcrossSlots,
    /// Each by itself.
    Never,
}

/// Where a command was sent, and in which form.
struct SentTo<'n> {
    node: &'n Node,
    form: Form,
    cluster: Option<&'n Arc<Cluster>>,
}

/// Calls that are one command. The script holds up everybody else, so together they are no longer than one call may be.
pub(crate) struct CallBatch<'t> {
    calls: Vec<&'t mut SentCall>,
    together: Together,
}

impl<'t> CallBatch<'t> {
    /// Calls, bundled.
    pub(crate) fn all(calls: Vec<&'t mut SentCall>, together: Together) -> Vec<Self> {
        let mut batches: Vec<(usize, Self)> = Vec::new();
        for sent in calls {
            let count = sent.call.operations.len();
            let by_itself = together == Together::Never || sent.alone;
            match batches.last_mut() {
                Some((sum, batch))
                    if !by_itself && !batch.is_alone() && *sum + count <= OPERATIONS_PER_CALL_MAX =>
                {
                    *sum += count;
                    batch.calls.push(sent);
                }
                _ => batches.push((count, Self { calls: vec![sent], together })),
            }
        }
        batches.into_iter().map(|(_, batch)| batch).collect()
    }

    fn is_alone(&self) -> bool {
        self.calls.iter().any(|sent| sent.alone)
    }

    fn form(&self) -> Form {
        let across = self.together == Together::AcrossSlots && self.calls.len() > 1;
        if across { Form::AcrossSlots } else { Form::Named }
    }

    /// The command, after the one that a node needs to which its slot is on its way; and the accounts of the command.
    pub(crate) fn commands(
        &self,
        requests: &Requests,
        turn: Option<&Turn>,
        sending: Sending,
        room: &Room,
    ) -> (Vec<Cmd>, Vec<AccountKey>) {
        let asking = self.calls.iter().any(|sent| sent.ask_at.is_some());
        let (command, accounts) = self.command(requests, turn, sending, room);
        (if asking { vec![redis::cmd("ASKING"), command] } else { vec![command] }, accounts)
    }

    fn command(
        &self,
        requests: &Requests,
        turn: Option<&Turn>,
        sending: Sending,
        room: &Room,
    ) -> (Cmd, Vec<AccountKey>) {
        let calls: Vec<&Call> = self.calls.iter().map(|sent| &*sent.call).collect();
        let times = self.calls.iter().map(|sent| &sent.times).fold(Times::default(), Times::and);
        let request = requests.of(&calls, turn, &times, sending, room);
        let by_text = self.calls.iter().any(|sent| sent.by_text);
        let mut command = script::SCRIPT.call(by_text, matches!(sending.new_keys, NewKeys::Share { .. }));
        match self.form() {
            Form::Named => command.arg(request.keys.len()).arg(request.keys).arg(request.packed),
            Form::AcrossSlots => {
                let all = packed_keys(&request.keys);
                command.arg(1).arg(request.keys.first()).arg(request.packed).arg(all)
            }
        };
        (command, request.accounts)
    }

    /// What was written, if anything was: then the server keeps the answers of these calls.
    pub(crate) fn written<'a>(&self, answer: &'a RedisResult<Value>) -> Option<&'a [u8]> {
        let Ok(Value::Array(answers)) = answer else { return None };
        match answers.get(self.calls.len()) {
            Some(Value::BulkString(written)) => Some(written),
            _ => None,
        }
    }

    /// For what the server keeps the answers of these calls, once they were read.
    pub(crate) fn answers_kept(&self) -> AnswersKept {
        let copied = self.calls.iter().any(|sent| sent.call.again);
        if copied { AnswersKept::ForCopies } else { AnswersKept::InVain }
    }

    /// Tells each call what came back for it.
    pub(crate) fn read_answer(self, answer: RedisResult<Value>, node: &Node, cluster: Option<&Arc<Cluster>>) {
        let sent_to = SentTo { node, form: self.form(), cluster };
        match answer {
            Ok(Value::Array(answers))
                if (self.calls.len()..=self.calls.len() + 1).contains(&answers.len()) =>
            {
                let answers = answers.into_iter();
                self.calls
                    .into_iter()
                    .zip(answers)
                    .for_each(|(sent, answer)| sent.read_answer(Ok(answer), &sent_to));
            }
            answer => self.calls.into_iter().for_each(|sent| sent.read_answer(answer.clone(), &sent_to)),
        }
    }
}

/// Whether a script may not reach keys that its command does not name, or only some in one slot.
fn refuses_unnamed_keys(detail: &str) -> bool {
    detail.contains("undeclared") || detail.contains("same slot")
}

/// The keys as the script reads them.
fn packed_keys(keys: &[String]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.list(keys, |packer, key| packer.text(key));
    packer.finish()
}
