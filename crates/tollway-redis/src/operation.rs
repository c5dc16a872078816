//! An operation as the script reads it.
//!
//! ```text
//! {verb, parties: [party], and what the verb needs}
//! party:             {line, policy, charges: [number], actual: [number] of a settle}
//! take, preview:     {permit, max_wait, readings, keeper; call and asked, if it has an id}
//! takes that are equal: the same, and {permits: [permit]}
//! begin:             the same, and {booking}
//! settle, give_back: {booking, keeper, remember}
//! done, renew:       {permit}
//! booking:           {permit, granted_at, at, good_until}
//! ```
//! `line`, `policy` and `keeper` are indices from 1. Permits are 16 bytes and `asked` is 8: more than the script's numbers
//! hold, and they are only ever compared.

use tollway_core::{
    Booking, CallId, Cost, Fingerprint, OwnedOperation, OwnedParty, OwnedTerms, OwnedVerb, PermitId, Policy,
};

use crate::pack::Fields;
use crate::request::Named;
use crate::run::permits;

/// An operation, or a run of equal takes.
pub(crate) fn pack_run(fields: &mut Fields<'_>, run: &[OwnedOperation], named: &Named<'_>) {
    let Some(first) = run.first() else { return };
    pack_operation(fields, first, named);
    if let Some(permits) = permits(run) {
        fields.list("permits", &permits, |packer, permit| packer.text(permit.0.to_be_bytes()));
    }
}

fn pack_operation(fields: &mut Fields<'_>, operation: &OwnedOperation, named: &Named<'_>) {
    let parties = &operation.parties;
    pack_parties(fields, operation, named);
    match &operation.verb {
        OwnedVerb::Take(terms) => {
            fields.text("verb", "take");
            pack_terms(fields, parties, terms, terms.call.as_ref());
        }
        OwnedVerb::Preview(terms) => {
            fields.text("verb", "preview");
            pack_terms(fields, parties, terms, terms.call.as_ref());
        }
        OwnedVerb::Begin(booking, terms) => {
            fields.text("verb", "begin");
            pack_terms(fields, parties, terms, Some(&CallId::of_second_take(booking.permit)));
            pack_booking(fields, booking);
        }
        OwnedVerb::Settle { booking, remember, .. } => {
            fields.text("verb", "settle");
            pack_refund(fields, parties, booking, *remember);
        }
        OwnedVerb::Return { booking, remember } => {
            fields.text("verb", "give_back");
            pack_refund(fields, parties, booking, *remember);
        }
        OwnedVerb::Done(permit) => {
            fields.text("verb", "done");
            pack_permit(fields, *permit);
        }
        OwnedVerb::Renew(permit) => {
            fields.text("verb", "renew");
            pack_permit(fields, *permit);
        }
        OwnedVerb::Peek => fields.text("verb", "peek"),
        OwnedVerb::Reset => fields.text("verb", "reset"),
    }
}

fn pack_parties(fields: &mut Fields<'_>, operation: &OwnedOperation, named: &Named<'_>) {
    let mut actual = match &operation.verb {
        OwnedVerb::Settle { actual, .. } => actual.iter(),
        _ => [].iter(),
    };
    fields.list("parties", &operation.parties, |packer, party| {
        packer.map(|fields| {
            fields.number("line", from_one(named.line(party)));
            fields.number("policy", from_one(named.policy(party)));
            pack_charges(fields, "charges", &party.policy, &party.cost);
            if let Some(actual) = actual.next() {
                pack_charges(fields, "actual", &party.policy, actual);
            }
        });
    });
}

fn pack_charges(fields: &mut Fields<'_>, name: &str, policy: &Policy, cost: &Cost) {
    let charges: Vec<u64> = policy.charges(cost).map(|(_, charge)| charge).collect();
    fields.list(name, &charges, |packer, charge| packer.number(*charge));
}

fn pack_terms(fields: &mut Fields<'_>, parties: &[OwnedParty], terms: &OwnedTerms, call: Option<&CallId>) {
    pack_permit(fields, terms.permit);
    fields.number("max_wait", terms.max_wait.as_micros());
    fields.boolean("readings", terms.readings);
    if let Some(call) = call {
        fields.number("keeper", from_one(keeper(parties)));
        fields.text("call", call.as_str());
        fields.text("asked", asked(parties).to_be_bytes());
    }
}

fn pack_refund(fields: &mut Fields<'_>, parties: &[OwnedParty], booking: &Booking, remember: bool) {
    pack_booking(fields, booking);
    fields.number("keeper", from_one(keeper(parties)));
    fields.boolean("remember", remember);
}

fn pack_booking(fields: &mut Fields<'_>, booking: &Booking) {
    fields.map("booking", |fields| {
        pack_permit(fields, booking.permit);
        fields.number("granted_at", booking.granted_at.as_micros());
        fields.number("at", booking.at.as_micros());
        fields.number("good_until", booking.good_until.as_micros());
    });
}

fn pack_permit(fields: &mut Fields<'_>, permit: PermitId) {
    fields.text("permit", permit.0.to_be_bytes());
}

/// Which party's line keeps ids and refunds: the first in key order, however the caller orders them.
fn keeper(parties: &[OwnedParty]) -> Option<usize> {
    let keys =
        parties.iter().enumerate().map(|(index, party)| ((party.policy.name(), &party.subject), index));
    keys.min().map(|(_, index)| index)
}

/// What was asked, however the caller orders it: the same id with another cost is noticed.
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

/// An index as the script counts.
fn from_one(index: Option<usize>) -> u64 {
    index.and_then(|index| u64::try_from(index).ok()).map_or(0, |index| index.saturating_add(1))
}
