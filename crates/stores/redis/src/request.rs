//! Calls as the script reads them: packed, with everything about policies worked out, so that the script knows no names,
//! units or zones.
//!
//! ```text
//! {grace, answer_kept, connection?, command?, read?, primary?, recalled?, now?, shared?, full?, policies: [policy], calls: [call]}
//! call:      as in common_take.rs, or {sequence, operations: [operation], shares?, refunds_again?, makes_no_shared?}
//! policy:    {shadow, forgets, edge, max_wait, may_book, holds_slots, limits: [limit]}
//! limit:     {kind, identity, amount, capacity, period, refill_time of a bucket, windows of a calendar}
//!            the amount of an adaptive limit is its first rate, in millionths of a call a second
//! operation: see operation.rs
//! ```
//! `shared` is how many places behind the key of an account that of the shared one is; `full` that the server has no room.
//! `primary` and `recalled`, a list of {place, account}, are there once the primary has changed: see `script/recall.lua`.
//! `connection`, `command` and `read` are a [`Turn`]; on a Cluster, where each call goes by itself, there is none. Numbers are microseconds and units below 2^53, but for `grace` and `answer_kept`, which are milliseconds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollway_core::{
    AccountKey, Algorithm, Calendar, Charge, Limit, Name, Operation, Policy, Subject, Timestamp,
};
use tollway_remote::{ANSWER_KEPT, Call};

use crate::common_take::pack_common_take;
use crate::copies::{Copies, Recalled};
use crate::keys::Keys;
use crate::operation::pack_run;
use crate::pack::{Fields, Packer};
use crate::room::{NewKeys, Room, refunds_again, shares};
use crate::run::runs;
use crate::shared_account::{Slots, number};
use crate::turn::Turn;
use crate::windows::{Calendars, Times};

/// How long accounts are kept beyond their expiry, in case the server's clock is set back.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Calls, ready to be sent.
pub(crate) struct Request {
    /// The key of the answers that are kept, or one for each call, then the keys of the accounts.
    pub(crate) keys: Vec<String>,
    /// The rest, packed.
    pub(crate) packed: Vec<u8>,
    /// Whose keys those of the accounts are.
    pub(crate) accounts: Vec<AccountKey>,
}

/// How requests are made.
pub(crate) struct Requests {
    pub(crate) keys: Keys,
    pub(crate) grace: Duration,
    pub(crate) calendars: Calendars,
    pub(crate) copies: Copies,
}

/// How calls are sent to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) new_keys: NewKeys,
    pub(crate) slots: Slots,
    /// A time of its own, in tests only.
    pub(crate) now: Option<Timestamp>,
}

impl Requests {
    /// The request of calls, with the calendar windows of these times. Without a turn the answer of each call has a key of its
    /// own, in the slot of its account.
    pub(crate) fn of(
        &self,
        calls: &[&Call],
        turn: Option<&Turn>,
        times: &Times,
        sending: Sending,
        room: &Room,
    ) -> Request {
        let tables = RequestTables::of(calls, if turn.is_some() { 1 } else { calls.len() });
        let mut packer = Packer::default();
        packer.map(|fields| {
            fields.number("grace", millis(self.grace));
            fields.number("answer_kept", millis(ANSWER_KEPT));
            if let Some(turn) = turn {
                fields.number("connection", turn.connection);
                fields.number("command", turn.command);
                fields.list("read", &turn.read, |packer, command| packer.number(*command));
                let recalled = turn.primary.and_then(|primary| self.copies.recall(primary, &tables.accounts));
                pack_recalled(fields, recalled.as_ref());
            }
            if let Some(now) = sending.now {
                fields.number("now", now.as_micros());
            }
            if sending.new_keys != NewKeys::Make {
                fields.number("shared", u64::try_from(tables.accounts.len()).unwrap_or(u64::MAX));
            }
            if matches!(sending.new_keys, NewKeys::Share { .. }) {
                fields.boolean("full", true);
            }
            fields.list("policies", &tables.policies, |packer, policy| {
                packer.map(|fields| self.pack_policy(fields, policy, times));
            });
            fields.list("calls", calls, |packer, call| {
                // Those that only look whether they share make no shared account.
                let makes_shared = matches!(sending.new_keys, NewKeys::Share { .. }) || shares(call);
                let may_share = !makes_shared || room.may_share(call);
                if sending.new_keys != NewKeys::Make || !pack_common_take(packer, call, &tables) {
                    packer.map(|fields| pack_call(fields, call, &tables, sending, may_share));
                }
            });
        });
        let mut keys: Vec<String> = match turn {
            Some(_) => vec![self.keys.answers()],
            None => {
                calls.iter().filter_map(|call| tagged(call)).map(|charge| self.keys.writer(charge)).collect()
            }
        };
        keys.extend(tables.charges.iter().map(|charge| self.keys.account(charge)));
        if sending.new_keys != NewKeys::Make {
            keys.extend(
                tables.charges.iter().map(|charge| {
                    self.keys.shared_account(number(charge, sending.slots), charge.policy.name())
                }),
            );
        }
        Request { keys, packed: packer.finish(), accounts: tables.accounts }
    }

    fn pack_policy(&self, fields: &mut Fields<'_>, policy: &Policy, times: &Times) {
        fields.boolean("shadow", policy.shadow());
        fields.boolean("forgets", policy.forgets());
        fields.number("edge", policy.edge().as_micros());
        fields.number("max_wait", policy.max_wait().as_micros());
        fields.boolean("may_book", policy.may_book());
        fields.boolean("holds_slots", policy.holds_slots());
        fields.list("limits", policy.limits(), |packer, limit| {
            packer.map(|fields| self.pack_limit(fields, limit, times));
        });
    }

    fn pack_limit(&self, fields: &mut Fields<'_>, limit: &Limit, times: &Times) {
        let (kind, period) = match limit.algorithm() {
            Algorithm::Window(Calendar::Every(period)) => ("every", *period),
            Algorithm::Window(calendar) => {
                let windows = self.calendars.windows(limit.identity(), calendar, times);
                let edges: Vec<Timestamp> =
                    windows.into_iter().flat_map(|(start, end)| [start, end]).collect();
                fields.list("windows", &edges, |packer, edge| packer.number(edge.as_micros()));
                ("calendar", calendar.longest())
            }
            Algorithm::FromFirstCall(period) => ("first", *period),
            Algorithm::Sliding(period) => ("sliding", *period),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => {
                fields.number("refill_time", limit.refill_time().as_micros());
                ("bucket", *period)
            }
            Algorithm::Adaptive(period) => ("adaptive", *period),
            Algorithm::Concurrency { expires } => ("slots", *expires),
        };
        fields.text("kind", kind);
        fields.number("identity", limit.identity().into());
        fields.number("amount", limit.starts_at().unwrap_or(limit.amount()));
        fields.number("capacity", limit.capacity());
        fields.number("period", period.as_micros());
    }
}

fn pack_recalled(fields: &mut Fields<'_>, recalled: Option<&Recalled>) {
    let Some(recalled) = recalled else { return };
    fields.number("primary", recalled.primary.number());
    fields.list("recalled", &recalled.accounts, |packer, (index, account)| {
        packer.pair(|packer| packer.number(from_two(*index)), |packer| packer.text(account));
    });
}

/// The place of an account's key, as the script counts.
fn from_two(index: usize) -> u64 {
    u64::try_from(index).map_or(0, |index| index.saturating_add(2))
}

fn pack_call(
    fields: &mut Fields<'_>,
    call: &Call,
    tables: &RequestTables<'_>,
    Sending { new_keys, .. }: Sending,
    may_share: bool,
) {
    fields.number("sequence", call.sequence);
    if new_keys != NewKeys::Make && shares(call) {
        fields.boolean("shares", true);
    }
    if matches!(new_keys, NewKeys::Share { .. }) && refunds_again(call) {
        fields.boolean("refunds_again", true);
    }
    if new_keys != NewKeys::Make && !may_share {
        fields.boolean("makes_no_shared", true);
    }
    let runs: Vec<&[Operation]> = runs(&call.operations).collect();
    fields.list("operations", &runs, |packer, run| {
        packer.map(|fields| pack_run(fields, run, tables));
    });
}

/// The charge whose account is the tag of the call: all of its operations have one. While a policy's slot is changing, the
/// first of them decides where its account is.
pub(crate) fn tagged(call: &Call) -> Option<&Charge> {
    let tag = call.tag.account();
    let is_tag = |charge: &&Charge| *charge.policy.name() == tag.policy && charge.subject == tag.subject;
    call.operations.iter().flat_map(|operation| &operation.charges).find(is_tag)
}

/// The accounts and policies of a request, each once. The script counts from 1; the keys of answers come first.
pub(crate) struct RequestTables<'a> {
    /// How many keys of answers there are.
    answers: usize,
    accounts: Vec<AccountKey>,
    /// The first charge of each account: its policy says which slot the account is in.
    charges: Vec<&'a Charge>,
    index_of: HashMap<(&'a Name, &'a Subject), usize>,
    policies: Vec<&'a Arc<Policy>>,
}

impl<'a> RequestTables<'a> {
    fn of(calls: &[&'a Call], answers: usize) -> Self {
        let (accounts, charges, policies) = (Vec::new(), Vec::new(), Vec::new());
        let mut tables = Self { answers, accounts, charges, index_of: HashMap::new(), policies };
        let runs = calls.iter().flat_map(|call| runs(&call.operations));
        for charge in runs.filter_map(|run| run.first()).flat_map(|operation| &operation.charges) {
            if tables.policy(charge).is_none() {
                tables.policies.push(&charge.policy);
            }
            let (policy, subject) = (charge.policy.name(), &charge.subject);
            tables.index_of.entry((policy, subject)).or_insert_with(|| {
                tables.accounts.push(charge.key());
                tables.charges.push(charge);
                tables.accounts.len() - 1
            });
        }
        tables
    }

    /// The index of the charge's account among the keys.
    pub(crate) fn account(&self, charge: &Charge) -> Option<usize> {
        let index = self.index_of.get(&(charge.policy.name(), &charge.subject))?;
        Some(self.answers.saturating_add(*index))
    }

    /// Which of the policies is the charge's, as it was when the operation was made.
    pub(crate) fn policy(&self, charge: &Charge) -> Option<usize> {
        let same = |policy: &&Arc<Policy>| Arc::ptr_eq(policy, &charge.policy) || **policy == charge.policy;
        self.policies.iter().position(same)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
