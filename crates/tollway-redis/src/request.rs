//! A call as the script reads it: packed, with everything about policies worked out, so that the script knows no names,
//! units or zones.
//!
//! ```text
//! {sequence, grace, answer_kept, now?, policies: [policy], operations: [operation]}
//! policy:    {shadow, edge, max_wait, may_book, holds_slots, limits: [limit]}
//! limit:     {kind, identity, amount, capacity, period, refill_time? | windows?}
//! operation: {verb, parties: [party], and what the verb needs}
//! party:     {line, policy, charges: [number], actual?: [number]}      line, policy, keeper: indices from 1
//! take:      {permit, max_wait, readings, keeper, call?, asked?}       begin: the same with a booking
//! settle:    {booking, keeper, remember}                               so does give_back; done and renew: {permit}
//! booking:   {permit, granted_at, at, good_until}
//! ```
//! Numbers are microseconds and units below 2^53. Permits are 16 bytes, `asked` 8: more than the script's numbers hold.

use std::time::Duration;

use tollway_core::{
    Algorithm, Booking, Calendar, CallId, Cost, Fingerprint, Limit, LineKey, OwnedOperation, OwnedParty,
    OwnedTerms, OwnedVerb, PermitId, Policy, Timestamp,
};
use tollway_remote::{ANSWER_KEPT, Call};

use crate::keys::Keys;
use crate::pack::Packer;
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
        packer.map(if now.is_some() { 6 } else { 5 });
        number(&mut packer, "sequence", call.sequence);
        number(&mut packer, "grace", millis(self.grace));
        number(&mut packer, "answer_kept", millis(ANSWER_KEPT));
        if let Some(now) = now {
            number(&mut packer, "now", now.as_micros());
        }
        packer.text("policies");
        packer.list(named.policies.len());
        named.policies.iter().for_each(|policy| self.pack_policy(&mut packer, policy, times));
        packer.text("operations");
        packer.list(call.operations.len());
        call.operations.iter().for_each(|operation| pack_operation(&mut packer, operation, &named));
        let lines = named.lines.iter().map(|line| self.keys.line(line));
        let keys = std::iter::once(self.keys.writer(call.tag.line())).chain(lines).collect();
        Request { keys, packed: packer.finish() }
    }

    fn pack_policy(&self, packer: &mut Packer, policy: &Policy, times: &Times) {
        packer.map(6);
        boolean(packer, "shadow", policy.shadow());
        number(packer, "edge", policy.edge().as_micros());
        number(packer, "max_wait", policy.max_wait().as_micros());
        boolean(packer, "may_book", policy.may_book());
        boolean(packer, "holds_slots", policy.holds_slots());
        packer.text("limits");
        packer.list(policy.limits().len());
        policy.limits().iter().for_each(|limit| self.pack_limit(packer, limit, times));
    }

    fn pack_limit(&self, packer: &mut Packer, limit: &Limit, times: &Times) {
        let (kind, period) = match limit.algorithm() {
            Algorithm::Window(Calendar::Every(period)) => ("every", *period),
            Algorithm::Window(calendar) => ("calendar", calendar.longest()),
            Algorithm::FromFirstCall(period) => ("first", *period),
            Algorithm::Sliding(period) => ("sliding", *period),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) => ("bucket", *period),
            Algorithm::Concurrency { expires } => ("slots", *expires),
        };
        packer.map(if matches!(kind, "calendar" | "bucket") { 6 } else { 5 });
        text(packer, "kind", kind);
        number(packer, "identity", limit.identity().into());
        number(packer, "amount", limit.amount());
        number(packer, "capacity", limit.capacity());
        number(packer, "period", period.as_micros());
        match (kind, limit.algorithm()) {
            ("bucket", _) => number(packer, "refill_time", limit.refill_time().as_micros()),
            ("calendar", Algorithm::Window(calendar)) => {
                let windows = self.calendars.windows(limit.identity(), calendar, times);
                packer.text("windows");
                packer.list(windows.len().saturating_mul(2));
                for (start, end) in windows {
                    packer.number(start.as_micros());
                    packer.number(end.as_micros());
                }
            }
            _ => {}
        }
    }
}

/// What the operations name, each once.
struct Named<'a> {
    lines: Vec<LineKey>,
    policies: Vec<&'a Policy>,
}

impl<'a> Named<'a> {
    fn of(operations: &'a [OwnedOperation]) -> Self {
        let mut named = Self { lines: Vec::new(), policies: Vec::new() };
        for party in operations.iter().flat_map(|operation| &operation.parties) {
            if !named.policies.contains(&&party.policy) {
                named.policies.push(&party.policy);
            }
            let line = line_of(party);
            if !named.lines.contains(&line) {
                named.lines.push(line);
            }
        }
        named
    }

    fn line(&self, party: &OwnedParty) -> u64 {
        let same = |line: &LineKey| line.policy == *party.policy.name() && line.subject == party.subject;
        index(self.lines.iter().position(same))
    }

    fn policy(&self, party: &OwnedParty) -> u64 {
        index(self.policies.iter().position(|policy| **policy == party.policy))
    }
}

/// An index as the script counts: from 1.
fn index(position: Option<usize>) -> u64 {
    position
        .and_then(|position| u64::try_from(position).ok())
        .map_or(0, |position| position.saturating_add(1))
}

fn line_of(party: &OwnedParty) -> LineKey {
    LineKey { policy: party.policy.name().clone(), subject: party.subject.clone() }
}

fn pack_operation(packer: &mut Packer, operation: &OwnedOperation, named: &Named<'_>) {
    let keeper = index(keeper(&operation.parties));
    match &operation.verb {
        OwnedVerb::Take(terms) => {
            packer.map(terms_fields(terms.call.as_ref()) + 2);
            head(packer, "take", operation, named);
            pack_terms(packer, operation, terms, terms.call.as_ref(), keeper);
        }
        OwnedVerb::Preview(terms) => {
            packer.map(terms_fields(terms.call.as_ref()) + 2);
            head(packer, "preview", operation, named);
            pack_terms(packer, operation, terms, terms.call.as_ref(), keeper);
        }
        OwnedVerb::Begin(booking, terms) => {
            let second = CallId::of_second_take(booking.permit);
            packer.map(terms_fields(Some(&second)) + 3);
            head(packer, "begin", operation, named);
            pack_terms(packer, operation, terms, Some(&second), keeper);
            pack_booking(packer, booking);
        }
        OwnedVerb::Settle { booking, remember, .. } => {
            refund(packer, "settle", operation, named, booking, *remember)
        }
        OwnedVerb::Return { booking, remember } => {
            refund(packer, "give_back", operation, named, booking, *remember)
        }
        OwnedVerb::Done(permit) => slots(packer, "done", operation, named, *permit),
        OwnedVerb::Renew(permit) => slots(packer, "renew", operation, named, *permit),
        OwnedVerb::Peek => bare(packer, "peek", operation, named),
        OwnedVerb::Reset => bare(packer, "reset", operation, named),
    }
}

/// Which party's line keeps ids and refunds: the first in key order, whatever the order in which the caller names them.
fn keeper(parties: &[OwnedParty]) -> Option<usize> {
    let keys =
        parties.iter().enumerate().map(|(index, party)| ((party.policy.name(), &party.subject), index));
    keys.min().map(|(_, index)| index)
}

fn head(packer: &mut Packer, verb: &str, operation: &OwnedOperation, named: &Named<'_>) {
    text(packer, "verb", verb);
    packer.text("parties");
    packer.list(operation.parties.len());
    let actual = if let OwnedVerb::Settle { actual, .. } = &operation.verb { &**actual } else { &[] };
    for (index, party) in operation.parties.iter().enumerate() {
        let actual = actual.get(index);
        packer.map(if actual.is_some() { 4 } else { 3 });
        number(packer, "line", named.line(party));
        number(packer, "policy", named.policy(party));
        pack_charges(packer, "charges", &party.policy, &party.cost);
        if let Some(actual) = actual {
            pack_charges(packer, "actual", &party.policy, actual);
        }
    }
}

fn pack_charges(packer: &mut Packer, name: &str, policy: &Policy, cost: &Cost) {
    packer.text(name);
    packer.list(policy.limits().len());
    policy.charges(cost).for_each(|(_, charge)| packer.number(charge));
}

fn terms_fields(call: Option<&CallId>) -> u8 {
    if call.is_some() { 6 } else { 4 }
}

fn pack_terms(
    packer: &mut Packer,
    operation: &OwnedOperation,
    terms: &OwnedTerms,
    call: Option<&CallId>,
    keeper: u64,
) {
    pack_permit(packer, terms.permit);
    number(packer, "max_wait", terms.max_wait.as_micros());
    boolean(packer, "readings", terms.readings);
    number(packer, "keeper", keeper);
    if let Some(call) = call {
        text(packer, "call", call.as_str());
        packer.text("asked");
        packer.text(asked(&operation.parties).to_be_bytes());
    }
}

/// What was asked, whatever the order in which the caller names the parties: the same id with another cost is noticed.
fn asked(parties: &[OwnedParty]) -> u64 {
    let mut in_key_order: Vec<&OwnedParty> = parties.iter().collect();
    in_key_order.sort_unstable_by_key(|party| (party.policy.name(), &party.subject));
    let with_party = |print: Fingerprint, party: &&OwnedParty| {
        let print = print.text(party.policy.name().as_str()).text(party.subject.as_str());
        let charges = party.policy.charges(&party.cost);
        charges.fold(print, |print, (limit, charge)| print.number(limit.identity().into()).number(charge))
    };
    in_key_order.iter().fold(Fingerprint::new(), with_party).finish()
}

fn refund(
    packer: &mut Packer,
    verb: &str,
    operation: &OwnedOperation,
    named: &Named<'_>,
    booking: &Booking,
    remember: bool,
) {
    packer.map(5);
    head(packer, verb, operation, named);
    pack_booking(packer, booking);
    number(packer, "keeper", index(keeper(&operation.parties)));
    boolean(packer, "remember", remember);
}

fn slots(packer: &mut Packer, verb: &str, operation: &OwnedOperation, named: &Named<'_>, permit: PermitId) {
    packer.map(3);
    head(packer, verb, operation, named);
    pack_permit(packer, permit);
}

fn bare(packer: &mut Packer, verb: &str, operation: &OwnedOperation, named: &Named<'_>) {
    packer.map(2);
    head(packer, verb, operation, named);
}

fn pack_booking(packer: &mut Packer, booking: &Booking) {
    packer.text("booking");
    packer.map(4);
    pack_permit(packer, booking.permit);
    number(packer, "granted_at", booking.granted_at.as_micros());
    number(packer, "at", booking.at.as_micros());
    number(packer, "good_until", booking.good_until.as_micros());
}

fn pack_permit(packer: &mut Packer, permit: PermitId) {
    packer.text("permit");
    packer.text(permit.0.to_be_bytes());
}

fn number(packer: &mut Packer, name: &str, value: u64) {
    packer.text(name);
    packer.number(value);
}

fn boolean(packer: &mut Packer, name: &str, value: bool) {
    packer.text(name);
    packer.boolean(value);
}

fn text(packer: &mut Packer, name: &str, value: &str) {
    packer.text(name);
    packer.text(value);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
