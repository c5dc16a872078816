//! A call as the layout's script reads it.
//!
//! ```text
//! {answer_kept, periods: [period of each counter], operations: [operation]; shared, full, strict, shares and refunds_again}
//! operation: {verb, parties: how many, meters: [meter], and what the verb needs}
//! meter:     [counter, party, limit, amount, charge, actual]
//! take, preview, begin: {readings; call and asked, if it has an id}
//! begin, settle, give_back: {booking: {permit, at, good_until}}
//! settle, give_back: {remember}
//! ```
//! The script calls an action a verb, a charge a party, and an amount that is taken a charge. `counter` counts from 1,
//! `party` and `limit` from 0. Times are microseconds, but `answer_kept` and periods, which are milliseconds, as keys live.
//! With `shared`, the keys of shared counters follow in the end, one for each counter; `full` says that the server has no
//! room, `strict` that not even a known subject gets more counters, and `shares` that the call makes none for new subjects.
//! Permits are 16 bytes and `asked` is 8: they are only ever compared.
//!
//! What no two calls have in common is sent apart, the sequence and the permits of takes: so calls that ask for the same are
//! the same text, which the script reads once.

use std::collections::{BTreeSet, HashMap};

use tollway_core::{
    Action, Booking, CallId, Charge, Cost, Fingerprint, NewAccounts, Operation, Period, StoreError, Subject,
    Terms,
};
use tollway_remote::{ANSWER_KEPT, Call};

use super::fit::periods;
use super::period::{key, key_of};
use crate::error::{answered, wrong};
use crate::keys::Keys;
use crate::pack::{Fields, Packer};
use crate::request::tagged;
use crate::room::{NewKeys, refunds_again, shares};
use crate::shared_account;

/// A call, ready to be sent.
#[derive(Default)]
pub(super) struct Request {
    /// The writer's key, those of ids and refunds, those of the counters, those of counters to forget, then those of the
    /// shared counters if any may be used.
    pub(super) keys: Vec<String>,
    pub(super) sequence: u64,
    /// 16 bytes for each operation; zeros where it asks for no permit.
    pub(super) permits: Vec<u8>,
    /// The rest, packed.
    pub(super) packed: Vec<u8>,
}

impl Request {
    pub(super) fn of(call: &Call, companions: &Keys, new_keys: NewKeys) -> Result<Self, StoreError> {
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
            if new_keys != NewKeys::Make {
                fields.number("shared", number(counters.keys.len()));
                fields.boolean("full", matches!(new_keys, NewKeys::Share { .. }));
                fields.boolean("strict", new_keys == NewKeys::Share { has_some_room: false });
                fields.boolean("shares", shares(call));
                fields.boolean(
                    "refunds_again",
                    matches!(new_keys, NewKeys::Share { .. }) && refunds_again(call),
                );
            }
        });
        let tagged = tagged(call).ok_or_else(|| wrong("a call without a charge".into()))?;
        let account = companions.account(tagged);
        let mut keys =
            vec![companions.writer(tagged), format!("{account}:ids"), format!("{account}:refunds")];
        let forgotten = counters.forgotten(call);
        let shared = if new_keys == NewKeys::Make { Vec::new() } else { counters.shared_keys(companions)? };
        keys.append(&mut counters.keys);
        keys.extend(forgotten);
        keys.extend(shared);
        let permits = call.operations.iter().flat_map(|operation| permit(&operation.action)).collect();
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
    /// The subject of each.
    subjects: Vec<Subject>,
}

/// One limit of a charge: its counter, and what is taken from it.
struct Meter {
    /// Counted from 0.
    counter: usize,
    charge: usize,
    limit: usize,
    /// The most that the limit grants in its period.
    limit_amount: u64,
    /// What the operation takes.
    amount: u64,
    /// What a settle corrects the amount to; of other actions, nothing.
    actual: u64,
}

impl Counters {
    /// All limits of all charges, in order.
    fn meters(&mut self, operation: &Operation) -> Result<Vec<Meter>, StoreError> {
        let mut meters = Vec::new();
        for (index, charge) in operation.charges.iter().enumerate() {
            let actual = actual_amounts(operation, index, charge);
            let amounts = charge.amounts().zip(periods(&charge.policy)?).zip(actual).enumerate();
            for (limit, (((rule, amount), period), actual)) in amounts {
                let (counter, limit_amount) = (self.find(charge, period), rule.amount());
                meters.push(Meter { counter, charge: index, limit, limit_amount, amount, actual });
            }
        }
        Ok(meters)
    }

    fn find(&mut self, charge: &Charge, period: Period) -> usize {
        let key = key(period, &charge.subject);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let new = self.keys.len();
        self.keys.push(key.clone());
        self.periods.push(period);
        self.subjects.push(charge.subject.clone());
        self.known.insert(key, new);
        new
    }

    /// The key of the shared counter beside each counter. Two counters of one call that share one could not count apart.
    fn shared_keys(&self, companions: &Keys) -> Result<Vec<String>, StoreError> {
        let mut keys = Vec::with_capacity(self.periods.len());
        for (period, subject) in self.periods.iter().zip(&self.subjects) {
            let shared = companions.shared_subject(shared_account::number_on_one_server(subject));
            let key = key_of(*period, &shared);
            if keys.contains(&key) {
                return Err(answered("SHARED", "two subjects of this take share a counter"));
            }
            keys.push(key);
        }
        Ok(keys)
    }

    /// The keys of periods that takes are no longer limited in, where their policies forget.
    fn forgotten(&self, call: &Call) -> BTreeSet<String> {
        let takes = call.operations.iter().filter(|operation| matches!(operation.action, Action::Take(_)));
        let charges = takes
            .flat_map(|take| &take.charges)
            .filter(|charge| charge.policy.forgets() && charge.policy.limits().len() < Period::ALL.len());
        let keys = charges.flat_map(|charge| Period::ALL.map(|period| key(period, &charge.subject)));
        keys.filter(|key| !self.known.contains_key(key)).collect()
    }

    /// A fingerprint of the charges in any order: detects an id reused with another cost.
    fn asked(&self, meters: &[Meter]) -> u64 {
        let mut asked: Vec<_> =
            meters.iter().map(|meter| (self.keys.get(meter.counter), meter.amount)).collect();
        asked.sort_unstable();
        let with = |print: Fingerprint, (key, amount): (Option<&String>, u64)| {
            print.text(key.map_or("", String::as_str)).number(amount)
        };
        asked.into_iter().fold(Fingerprint::new(), with).finish()
    }
}

/// What a settle corrects each amount of a charge to. One that it does not name stays as it is; a return leaves nothing.
fn actual_amounts(operation: &Operation, index: usize, charge: &Charge) -> Vec<u64> {
    let nothing = Cost::default();
    let actual = match &operation.action {
        Action::Settle { actual, .. } => actual.get(index).unwrap_or(charge.cost()),
        _ => &nothing,
    };
    charge.policy.amounts(actual).map(|(_, amount)| amount).collect()
}

fn pack_operation(fields: &mut Fields<'_>, operation: &Operation, meters: &[Meter], counters: &Counters) {
    fields.text("verb", name(&operation.action));
    fields.number("parties", number(operation.charges.len()));
    fields.list("meters", meters, |packer, meter| {
        packer.list(&meter.all(), |packer, number| packer.number(*number))
    });
    let mut pack_terms = |terms: &Terms, call: Option<&CallId>| {
        fields.boolean("readings", terms.readings);
        if terms.new_accounts == NewAccounts::MakeAndCount {
            fields.boolean("counts_made", true);
        }
        if let Some(call) = call {
            fields.text("call", call.as_str());
            fields.text("asked", counters.asked(meters).to_be_bytes());
        }
    };
    match &operation.action {
        Action::Take(terms) | Action::Preview(terms) => pack_terms(terms, terms.call.as_ref()),
        Action::Begin(booking, terms) => {
            pack_terms(terms, Some(&CallId::of_second_take(booking.permit)));
            pack_booking(fields, booking);
        }
        Action::Settle { booking, remember, .. } | Action::Return { booking, remember } => {
            pack_booking(fields, booking);
            fields.boolean("remember", *remember);
        }
        Action::Done(_) | Action::Renew(_) | Action::Peek | Action::Reset | Action::Feedback(_) => {}
    }
}

fn permit(action: &Action) -> [u8; 16] {
    match action {
        Action::Take(terms) | Action::Preview(terms) | Action::Begin(_, terms) => {
            terms.permit.0.to_be_bytes()
        }
        _ => [0; 16],
    }
}

/// The name that the script knows an action by.
fn name(action: &Action) -> &'static str {
    match action {
        Action::Take(_) => "take",
        Action::Preview(_) => "preview",
        Action::Begin(..) => "begin",
        Action::Settle { .. } => "settle",
        Action::Return { .. } => "give_back",
        Action::Done(_) => "done",
        Action::Renew(_) => "renew",
        Action::Peek => "peek",
        Action::Reset => "reset",
        Action::Feedback(_) => "feedback",
    }
}

impl Meter {
    /// In the order in which the script knows them.
    fn all(&self) -> [u64; 6] {
        let (counter, charge, limit) =
            (number(self.counter).saturating_add(1), number(self.charge), number(self.limit));
        [counter, charge, limit, self.limit_amount, self.amount, self.actual]
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
