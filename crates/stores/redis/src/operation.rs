//! An operation as the script reads it. On the wire an action is a `verb`, a charge a `party`, an account a `line`, and
//! amounts are `charges`; these field names must not change.
//!
//! ```text
//! {verb, parties: [party], and what the verb needs}
//! party:             {line, policy, charges: [number], actual: [number] of a settle}
//! take, preview:     {permit, max_wait, readings, keeper; counts_made; call and asked, if it has an id}
//! takes that are equal: the same, and {permits: [permit]}
//! begin:             the same, and {booking}
//! settle, give_back: {booking, keeper, remember}
//! done, renew:       {permit}
//! feedback:          {hold, left: [[limit, units, lasts]], rate}
//! rate:              {version, rate, burst, cut, controller; left and lasts, if it says how many calls are left}
//! booking:           {permit, granted_at, at, good_until}
//! ```
//! `line`, `policy` and `keeper` are indices from 1. Permits are 16 bytes and `asked` is 8: more than the script's numbers
//! hold, and they are only ever compared.

use tollway_core::bounds::COUNT_MAX;
use tollway_core::controller::HOLD_DAILY_MAX;
use tollway_core::{
    Action, Booking, CallId, Charge, Cost, Feedback, Fingerprint, NewAccounts, Operation, PermitId, Policy,
    Terms,
};

use crate::common_take::from_one;
use crate::pack::Fields;
use crate::request::RequestTables;
use crate::run::permits;

/// An operation, or a run of equal takes.
pub(crate) fn pack_run(fields: &mut Fields<'_>, run: &[Operation], tables: &RequestTables<'_>) {
    let Some(first) = run.first() else { return };
    pack_operation(fields, first, tables);
    if let Some(permits) = permits(run) {
        fields.list("permits", &permits, |packer, permit| packer.text(permit.0.to_be_bytes()));
    }
}

fn pack_operation(fields: &mut Fields<'_>, operation: &Operation, tables: &RequestTables<'_>) {
    let charges = &*operation.charges;
    pack_charges_of(fields, operation, tables);
    match &operation.action {
        Action::Take(terms) => {
            fields.text("verb", "take");
            pack_terms(fields, charges, terms, terms.call.as_ref());
        }
        Action::Preview(terms) => {
            fields.text("verb", "preview");
            pack_terms(fields, charges, terms, terms.call.as_ref());
        }
        Action::Begin(booking, terms) => {
            fields.text("verb", "begin");
            pack_terms(fields, charges, terms, Some(&CallId::of_second_take(booking.permit)));
            pack_booking(fields, booking);
        }
        Action::Settle { booking, remember, .. } => {
            fields.text("verb", "settle");
            pack_refund(fields, charges, booking, *remember);
        }
        Action::Return { booking, remember } => {
            fields.text("verb", "give_back");
            pack_refund(fields, charges, booking, *remember);
        }
        Action::Done(permit) => {
            fields.text("verb", "done");
            pack_permit(fields, *permit);
        }
        Action::Renew(permit) => {
            fields.text("verb", "renew");
            pack_permit(fields, *permit);
        }
        Action::Peek => fields.text("verb", "peek"),
        Action::Reset => fields.text("verb", "reset"),
        Action::Feedback(feedback) => {
            fields.text("verb", "feedback");
            pack_feedback(fields, feedback);
        }
    }
}

fn pack_charges_of(fields: &mut Fields<'_>, operation: &Operation, tables: &RequestTables<'_>) {
    let mut actual = match &operation.action {
        Action::Settle { actual, .. } => actual.iter(),
        _ => [].iter(),
    };
    fields.list("parties", &operation.charges, |packer, charge| {
        packer.map(|fields| {
            fields.number("line", from_one(tables.account(charge)));
            fields.number("policy", from_one(tables.policy(charge)));
            pack_amounts(fields, "charges", &charge.policy, charge.cost());
            if let Some(actual) = actual.next() {
                pack_amounts(fields, "actual", &charge.policy, actual);
            }
        });
    });
}

fn pack_amounts(fields: &mut Fields<'_>, name: &str, policy: &Policy, cost: &Cost) {
    let amounts: Vec<u64> = policy.amounts(cost).map(|(_, amount)| amount).collect();
    fields.list(name, &amounts, |packer, amount| packer.number(*amount));
}

fn pack_terms(fields: &mut Fields<'_>, charges: &[Charge], terms: &Terms, call: Option<&CallId>) {
    pack_permit(fields, terms.permit);
    fields.number("max_wait", terms.max_wait.as_micros());
    fields.boolean("readings", terms.readings);
    if terms.new_accounts == NewAccounts::MakeAndCount {
        fields.boolean("counts_made", true);
    }
    if let Some(call) = call {
        fields.number("keeper", from_one(keeper(charges)));
        fields.text("call", call.as_str());
        fields.text("asked", asked(charges).to_be_bytes());
    }
}

fn pack_refund(fields: &mut Fields<'_>, charges: &[Charge], booking: &Booking, remember: bool) {
    pack_booking(fields, booking);
    fields.number("keeper", from_one(keeper(charges)));
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

fn pack_feedback(fields: &mut Fields<'_>, feedback: &Feedback) {
    fields.number("hold", feedback.hold.min(HOLD_DAILY_MAX).as_micros());
    fields.list("left", &feedback.left, |packer, left| {
        let numbers = [from_one(Some(left.limit)), left.units.min(COUNT_MAX), left.lasts.as_micros()];
        packer.list(&numbers, |packer, number| packer.number(*number));
    });
    if let Some(change) = &feedback.rate {
        fields.map("rate", |fields| {
            fields.number("version", change.version);
            fields.number("rate", change.rate.min(COUNT_MAX));
            fields.number("burst", change.burst.min(COUNT_MAX));
            fields.boolean("cut", change.cut);
            fields.text("controller", &change.controller);
            if let Some((left, lasts)) = change.left {
                fields.number("left", left.min(COUNT_MAX));
                fields.number("lasts", lasts.as_micros());
            }
        });
    }
}

fn pack_permit(fields: &mut Fields<'_>, permit: PermitId) {
    fields.text("permit", permit.0.to_be_bytes());
}

/// The charge whose account remembers ids and refunds: the first in key order, in whatever order the caller gave them.
fn keeper(charges: &[Charge]) -> Option<usize> {
    let keys =
        charges.iter().enumerate().map(|(index, charge)| ((charge.policy.name(), &charge.subject), index));
    keys.min().map(|(_, index)| index)
}

/// A fingerprint of the charges in any order: detects an id reused with another cost.
fn asked(charges: &[Charge]) -> u64 {
    let mut in_key_order: Vec<&Charge> = charges.iter().collect();
    in_key_order.sort_unstable_by_key(|charge| (charge.policy.name(), &charge.subject));
    let with_charge = |print: Fingerprint, charge: &&Charge| {
        let print = print.text(charge.policy.name().as_str()).text(charge.subject.as_str());
        let amounts = charge.amounts();
        amounts.fold(print, |print, (limit, amount)| print.number(limit.identity().into()).number(amount))
    };
    in_key_order.iter().fold(Fingerprint::new(), with_charge).finish()
}
