//! A call as the script reads it: packed, with everything about policies worked out, so that the script knows no names,
//! units or zones.
//!
//! ```text
//! {sequence, grace, answer_kept, now?, policies: [policy], operations: [operation]}
//! policy:    {shadow, edge, max_wait, may_book, holds_slots, limits: [limit]}
//! limit:     {kind, identity, amount, capacity, period, refill_time of a bucket, windows of a calendar}
//! operation: see operation.rs
//! ```
//! Numbers are microseconds and units below 2^53, but for `grace` and `answer_kept`, which are milliseconds.

use std::time::Duration;

use tollway_core::{Algorithm, Calendar, Limit, LineKey, OwnedOperation, OwnedParty, Policy, Timestamp};
use tollway_remote::{ANSWER_KEPT, Call};

use crate::keys::Keys;
use crate::operation::pack_operation;
use crate::pack::{Fields, Packer};
use crate::windows::{Calendars, Times};

/// How long lines are kept beyond their end, in case the server's clock is set back.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// A call, ready to be sent.
pub(crate) struct Request {
    /// The writer's key, then those of the lines.
    pub(crate) keys: Vec<String>,
    /// The rest, packed.
    pub(crate) packed: Vec<u8>,
}

/// How requests are made.
pub(crate) struct Requests {
    pub(crate) keys: Keys,
    pub(crate) grace: Duration,
    pub(crate) calendars: Calendars,
}

impl Requests {
    /// The request of a call, with the calendar windows of these times. A time of its own is sent in tests only.
    pub(crate) fn of(&self, call: &Call, times: &Times, now: Option<Timestamp>) -> Request {
        let named = Named::of(&call.operations);
        let mut packer = Packer::default();
        packer.map(|fields| {
            fields.number("sequence", call.sequence);
            fields.number("grace", millis(self.grace));
            fields.number("answer_kept", millis(ANSWER_KEPT));
            if let Some(now) = now {
                fields.number("now", now.as_micros());
            }
            fields.list("policies", &named.policies, |packer, policy| {
                packer.map(|fields| self.pack_policy(fields, policy, times));
            });
            fields.list("operations", &call.operations, |packer, operation| {
                packer.map(|fields| pack_operation(fields, operation, &named));
            });
        });
        let lines = named.lines.iter().map(|line| self.keys.line(line));
        let keys = std::iter::once(self.keys.writer(call.tag.line())).chain(lines).collect();
        Request { keys, packed: packer.finish() }
    }

    fn pack_policy(&self, fields: &mut Fields<'_>, policy: &Policy, times: &Times) {
        fields.boolean("shadow", policy.shadow());
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
            Algorithm::Concurrency { expires } => ("slots", *expires),
        };
        fields.text("kind", kind);
        fields.number("identity", limit.identity().into());
        fields.number("amount", limit.amount());
        fields.number("capacity", limit.capacity());
        fields.number("period", period.as_micros());
    }
}

/// What the operations name, each once. The script counts from 1.
pub(crate) struct Named<'a> {
    lines: Vec<LineKey>,
    policies: Vec<&'a Policy>,
}

impl<'a> Named<'a> {
    fn of(operations: &'a [OwnedOperation]) -> Self {
        let mut named = Self { lines: Vec::new(), policies: Vec::new() };
        for party in operations.iter().flat_map(|operation| &operation.parties) {
            if named.policy(party).is_none() {
                named.policies.push(&party.policy);
            }
            if named.line(party).is_none() {
                let (policy, subject) = (party.policy.name().clone(), party.subject.clone());
                named.lines.push(LineKey { policy, subject });
            }
        }
        named
    }

    /// Which of the lines is the party's.
    pub(crate) fn line(&self, party: &OwnedParty) -> Option<usize> {
        let same = |line: &LineKey| line.policy == *party.policy.name() && line.subject == party.subject;
        self.lines.iter().position(same)
    }

    /// Which of the policies is the party's, as it was when the operation was made.
    pub(crate) fn policy(&self, party: &OwnedParty) -> Option<usize> {
        self.policies.iter().position(|policy| **policy == party.policy)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
