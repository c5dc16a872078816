//! The common call, one take of one account without an id, in a short form: the names of its fields would cost the script as
//! much as the rest of it.
//!
//! `{sequence, account, policy, max_wait, readings, permit, amount...}`, where account and policy are indices from 1.

use tollway_core::{Action, NewAccounts};
use tollway_remote::Call;

use crate::pack::Packer;
use crate::request::RequestTables;

/// A value of the short form.
enum Value {
    Number(u64),
    Boolean(bool),
    Text([u8; 16]),
}

/// Packs the call in its short form, if it is the common one.
pub(crate) fn pack_common_take(packer: &mut Packer, call: &Call, tables: &RequestTables<'_>) -> bool {
    let [operation] = &*call.operations else { return false };
    let (Action::Take(terms), [charge]) = (&operation.action, &*operation.charges) else { return false };
    if terms.call.is_some() || terms.new_accounts != NewAccounts::Make {
        return false;
    }
    let mut values = vec![
        Value::Number(call.sequence),
        Value::Number(from_one(tables.account(charge))),
        Value::Number(from_one(tables.policy(charge))),
        Value::Number(terms.max_wait.as_micros()),
        Value::Boolean(terms.readings),
        Value::Text(terms.permit.0.to_be_bytes()),
    ];
    values.extend(charge.amounts().map(|(_, amount)| Value::Number(amount)));
    packer.list(&values, |packer, value| match value {
        Value::Number(number) => packer.number(*number),
        Value::Boolean(value) => packer.boolean(*value),
        Value::Text(text) => packer.text(text),
    });
    true
}

/// An index as the script counts.
pub(crate) fn from_one(index: Option<usize>) -> u64 {
    index.and_then(|index| u64::try_from(index).ok()).map_or(0, |index| index.saturating_add(1))
}
