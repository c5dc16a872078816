//! A call as the layout's script reads it.
//!
//! ```text
//! {answer_kept, periods: [period of each counter], operations: [operation]}
//! operation: {verb, parties: how many, meters: [meter], and what the verb needs}
//! meter:     [counter, party, limit, amount, charge, actual]
//! take, preview, begin: {readings; call and asked, if it has an id}
//! begin, settle, give_back: {booking: {permit, at, good_until}}
//! settle, give_back: {remember}
//! ```
//! `counter` counts from 1, `party` and `limit` from 0. Times are microseconds, but `answer_kept` and periods, which are
//! milliseconds, as keys live. Permits are 16 bytes and `asked` is 8: they are only ever compared.
//!
//! What no two calls have in common is sent apart, the sequence and the permits of takes: so calls that ask for the same are
//! the same text, which the script reads once.

use std::collections::{BTreeSet, HashMap};

use tollway_core::{
    Booking, CallId, Cost, Fingerprint, OwnedOperation, OwnedParty, OwnedTerms, OwnedVerb, Period, StoreError,
};
use tollway_remote::{ANSWER_KEPT, Call};

use super::fit::periods;
use super::period::key;
use crate::keys::Keys;
use crate::pack::{Fields, Packer};

/// A call, ready to be sent.
#[derive(Default)]
pub(super) struct Request {
    /// The writer's key, those of ids and refunds, those of the counters, then those of counters to forget.
    pub(super) keys: Vec<String>,
    pub(super) sequence: u64,
    /// 16 bytes for each operation; zeros where it asks for no permit.
    pub(super) permits: Vec<u8>,
    /// The rest, packed.
    pub(super) packed: Vec<u8>,
}

impl Request {
    pub(super) fn of(call: &Call, companions: &Keys) -> Result<Self, StoreError> {
        let mut counters = Counters::default();
        let operations = call.operations.iter().map(|operation| counters.meters(operation));
        let meters = operations.collect::<Result<Vec<_>, _>>()?;
        let operations: Vec<_> = call.operations.iter().zip(&meters).collect();
        let mut packer = Packer::default();
        packer.map(|fields| {
            fields.number("answer_kept", u64::try_from(ANSWER_KEPT.as_millis()).unwrap_or(u64::MAX));
            fields.list("periods", &counters.periods, |packer, period| {
                packer.number(period.span().as_micros() / 1_000);
            });
            fields.list("operations", &operations, |packer, (operation, meters)| {
                packer.map(|fields| pack_operation(fields, operation, meters, &counters));
            });
        });
        let line = companions.line(call.tag.line());
        let mut keys =
            vec![companions.writer(call.tag.line()), format!("{line}:ids"), format!("{line}:refunds")];
        let forgotten = counters.forgotten(call);
        keys.append(&mut counters.keys);
        keys.extend(forgotten);
        let permits = call.operations.iter().flat_map(|operation| permit(&operation.verb)).collect();
        Ok(Self { keys, sequence: call.sequence, permits, packed: packer.finish() })
    }
}

/// The counters that a call names, each once.
#[derive(Default)]
struct Counters {
    keys: Vec<String>,
    periods: Vec<Period>,
    /// By key, counted from 0.
    known: HashMap<String, usize>,
}

/// One limit of a party: its counter, and what is taken from it.
struct Meter {
    /// Counted from 0.
    counter: usize,
    party: usize,
    limit: usize,
    amount: u64,
    charge: u64,
    /// What a settle makes of the charge; of other verbs, nothing.
    actual: u64,
}

impl Counters {
    /// All limits of all parties, in order.
    fn meters(&mut self, operation: &OwnedOperation) -> Result<Vec<Meter>, StoreError> {
        let mut meters = Vec::new();
        for (party, of) in operation.parties.iter().enumerate() {
            let actual = actual_charges(operation, party, of);
            let charges = of.policy.charges(&of.cost).zip(periods(&of.policy)?).zip(actual).enumerate();
            for (limit, (((rule, charge), period), actual)) in charges {
                let (counter, amount) = (self.find(of, period), rule.amount());
                meters.push(Meter { counter, party, limit, amount, charge, actual });
            }
        }
        Ok(meters)
    }

    fn find(&mut self, party: &OwnedParty, period: Period) -> usize {
        let key = key(period, &party.subject);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let new = self.keys.len();
        self.keys.push(key.clone());
        self.periods.push(period);
        self.known.insert(key, new);
        new
    }

    /// The keys of periods that takes are no longer limited in, where their policies forget.
    fn forgotten(&self, call: &Call) -> BTreeSet<String> {
        let takes = call.operations.iter().filter(|operation| matches!(operation.verb, OwnedVerb::Take(_)));
        let parties = takes
            .flat_map(|take| &take.parties)
            .filter(|party| party.policy.forgets() && party.policy.limits().len() < Period::ALL.len());
        let keys = parties.flat_map(|party| Period::ALL.map(|period| key(period, &party.subject)));
        keys.filter(|key| !self.known.contains_key(key)).collect()
    }

    /// What was asked, however the caller orders it: the same id with another cost is noticed.
    fn asked(&self, meters: &[Meter]) -> u64 {
        let mut asked: Vec<_> =
            meters.iter().map(|meter| (self.keys.get(meter.counter), meter.charge)).collect();
        asked.sort_unstable();
        let with = |print: Fingerprint, (key, charge): (Option<&String>, u64)| {
            print.text(key.map_or("", String::as_str)).number(charge)
        };
        asked.into_iter().fold(Fingerprint::new(), with).finish()
    }
}

/// What a settle makes of each charge of a party. One that it does not name stays as it is; a return leaves nothing.
fn actual_charges(operation: &OwnedOperation, party: usize, of: &OwnedParty) -> Vec<u64> {
    let nothing = Cost::default();
    let actual = match &operation.verb {
        OwnedVerb::Settle { actual, .. } => actual.get(party).unwrap_or(&of.cost),
        _ => &nothing,
    };
    of.policy.charges(actual).map(|(_, charge)| charge).collect()
}

fn pack_operation(
    fields: &mut Fields<'_>,
    operation: &OwnedOperation,
    meters: &[Meter],
    counters: &Counters,
) {
    fields.text("verb", verb(&operation.verb));
    fields.number("parties", number(operation.parties.len()));
    fields.list("meters", meters, |packer, meter| {
        packer.list(&meter.all(), |packer, number| packer.number(*number))
    });
    let mut pack_terms = |terms: &OwnedTerms, call: Option<&CallId>| {
        fields.boolean("readings", terms.readings);
        if let Some(call) = call {
            fields.text("call", call.as_str());
            fields.text("asked", counters.asked(meters).to_be_bytes());
        }
    };
    match &operation.verb {
        OwnedVerb::Take(terms) | OwnedVerb::Preview(terms) => pack_terms(terms, terms.call.as_ref()),
        OwnedVerb::Begin(booking, terms) => {
            pack_terms(terms, Some(&CallId::of_second_take(booking.permit)));
            pack_booking(fields, booking);
        }
        OwnedVerb::Settle { booking, remember, .. } | OwnedVerb::Return { booking, remember } => {
            pack_booking(fields, booking);
            fields.boolean("remember", *remember);
        }
        OwnedVerb::Done(_) | OwnedVerb::Renew(_) | OwnedVerb::Peek | OwnedVerb::Reset => {}
    }
}

fn permit(verb: &OwnedVerb) -> [u8; 16] {
    match verb {
        OwnedVerb::Take(terms) | OwnedVerb::Preview(terms) | OwnedVerb::Begin(_, terms) => {
            terms.permit.0.to_be_bytes()
        }
        _ => [0; 16],
    }
}

fn verb(verb: &OwnedVerb) -> &'static str {
    match verb {
        OwnedVerb::Take(_) => "take",
        OwnedVerb::Preview(_) => "preview",
        OwnedVerb::Begin(..) => "begin",
        OwnedVerb::Settle { .. } => "settle",
        OwnedVerb::Return { .. } => "give_back",
        OwnedVerb::Done(_) => "done",
        OwnedVerb::Renew(_) => "renew",
        OwnedVerb::Peek => "peek",
        OwnedVerb::Reset => "reset",
    }
}

impl Meter {
    /// In the order in which the script knows them.
    fn all(&self) -> [u64; 6] {
        let (counter, party, limit) =
            (number(self.counter).saturating_add(1), number(self.party), number(self.limit));
        [counter, party, limit, self.amount, self.charge, self.actual]
    }
}

fn pack_booking(fields: &mut Fields<'_>, booking: &Booking) {
    fields.map("booking", |fields| {
        fields.text("permit", booking.permit.0.to_be_bytes());
        fields.number("at", booking.at.as_micros());
        fields.number("good_until", booking.good_until.as_micros());
    });
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
