//! An account as a readable item: `key`, `line` (JSON), `version`, `writers`, `ttl`.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use tollway_core::{Account, Fault, Retry, Span, StoreError, Timestamp};

use crate::error::unreadable;
use crate::writers::{WriterRecord, Writers};

/// The name of the table's partition key.
pub(crate) const KEY: &str = "key";
/// What every write is conditional on.
pub(crate) const VERSION: &str = "version";
/// Seconds since 1970 after which DynamoDB deletes an item.
pub(crate) const TTL: &str = "ttl";

const LINE: &str = "line";
const WRITERS: &str = "writers";
const PUSHED_OUT: &str = "writers_forgotten_until";

/// An item is deleted after so much idleness, unless it still counts.
pub(crate) const IDLE: Span = Span::from_days(7);

/// The largest item we write: DynamoDB takes 400 KB, names of attributes included.
const ITEM_BYTES_MAX: usize = 390_000;

/// The attributes of an item.
pub(crate) type Attributes = HashMap<String, AttributeValue>;

/// A stored account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) account: Account,
    /// Grows with every write. A new item begins with the time, so no version comes twice under one key.
    pub(crate) version: u64,
    pub(crate) writers: Writers,
    /// How large it is, about.
    pub(crate) bytes: usize,
}

impl Item {
    /// Reads an item.
    pub(crate) fn read(attributes: &Attributes) -> Result<Self, StoreError> {
        let account = text(attributes, LINE)?;
        let writers = match attributes.get(WRITERS) {
            Some(AttributeValue::L(records)) => records.iter().map(record).collect::<Result<_, _>>()?,
            None => Vec::new(),
            Some(_) => return Err(unreadable(WRITERS, &"it is not a list")),
        };
        let pushed_out =
            if attributes.contains_key(PUSHED_OUT) { number(attributes, PUSHED_OUT)? } else { 0 };
        Ok(Self {
            bytes: account.len(),
            account: serde_json::from_str(account).map_err(|error| unreadable(LINE, &error))?,
            version: number(attributes, VERSION)?,
            writers: Writers { records: writers, pushed_out },
        })
    }

    /// Writes an item, and notes how large it is.
    pub(crate) fn write(&mut self, key: &str, now: Timestamp) -> Result<Attributes, StoreError> {
        let account = serde_json::to_string(&self.account).map_err(|error| unreadable(LINE, &error))?;
        self.bytes = account.len();
        let records: Vec<String> = self.writers.records.iter().map(ToString::to_string).collect();
        let size = key.len() + account.len() + records.iter().map(|record| record.len() + 1).sum::<usize>();
        if size > ITEM_BYTES_MAX {
            return Err(too_large(key, size));
        }
        let records = records.into_iter().map(AttributeValue::S).collect();
        let mut attributes = Attributes::from([
            (KEY.to_owned(), AttributeValue::S(key.to_owned())),
            (LINE.to_owned(), AttributeValue::S(account)),
            (VERSION.to_owned(), AttributeValue::N(self.version.to_string())),
            (WRITERS.to_owned(), AttributeValue::L(records)),
            (TTL.to_owned(), AttributeValue::N(ttl(&self.account, now).to_string())),
        ]);
        if self.writers.pushed_out > 0 {
            let until = AttributeValue::N(self.writers.pushed_out.to_string());
            attributes.insert(PUSHED_OUT.to_owned(), until);
        }
        Ok(attributes)
    }
}

/// When DynamoDB may delete it: it has been idle for long, and counts no more. It deletes days later, or never; until
/// then an item is decided by its account.
fn ttl(account: &Account, now: Timestamp) -> u64 {
    let idle = now.max(account.seen).plus(IDLE);
    account.expires.max(account.frontier()).max(idle).as_micros().div_ceil(1_000_000)
}

fn record(value: &AttributeValue) -> Result<WriterRecord, StoreError> {
    let text = value.as_s().map_err(|_| unreadable(WRITERS, &"it is not a list of texts"))?;
    text.parse().map_err(|error: &str| unreadable(WRITERS, &error))
}

/// An attribute that is text.
pub(crate) fn text<'a>(attributes: &'a Attributes, name: &str) -> Result<&'a str, StoreError> {
    let text = attributes.get(name).and_then(|value| value.as_s().ok());
    text.map(String::as_str).ok_or_else(|| unreadable(name, &"it is not a text"))
}

/// An attribute that is a whole number.
pub(crate) fn number(attributes: &Attributes, name: &str) -> Result<u64, StoreError> {
    let number = attributes.get(name).and_then(|value| value.as_n().ok());
    number.and_then(|digits| digits.parse().ok()).ok_or_else(|| unreadable(name, &"it is not a whole number"))
}

fn too_large(key: &str, size: usize) -> StoreError {
    let key: String = key.chars().take(80).collect();
    let message = format!(
        "the account {key:?} has {size} bytes and an item of DynamoDB at most {ITEM_BYTES_MAX}: \
         give fewer calls an id, or have fewer slots"
    );
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_secs(1_767_268_800);

    fn item(expires: Timestamp) -> Item {
        let mut writers = Writers::default();
        writers.note("me", 3, 1, NOON);
        let account = Account { seen: NOON, expires, ..Account::default() };
        Item { account, version: 17, writers, bytes: 0 }
    }

    #[test]
    fn an_item_reads_back_as_itself() {
        for pushed_out in [0, 5] {
            let mut item = item(NOON);
            item.writers.pushed_out = pushed_out;
            let attributes = item.write("1:1:p:s", NOON).unwrap();
            assert_eq!(Item::read(&attributes), Ok(item));
        }
    }

    #[test]
    fn foreign_items_are_unreadable() {
        for name in [LINE, VERSION, WRITERS] {
            let mut attributes = item(NOON).write("1:1:p:s", NOON).unwrap();
            attributes.insert(name.to_owned(), AttributeValue::Bool(true));
            let error = Item::read(&attributes).unwrap_err();
            assert!(error.message.contains(name) && error.retry == Retry::Useless, "{error}");
        }
    }

    /// G6: seven idle days, or longer while it counts.
    #[test]
    fn an_item_expires_after_seven_idle_days_but_not_while_it_counts() {
        let ttl_of = |expires| {
            number(&item(expires).write("k", NOON).unwrap(), TTL).map(Timestamp::from_secs).unwrap()
        };
        assert_eq!(ttl_of(NOON), NOON.plus(IDLE));
        let month = NOON.plus(Span::from_days(31));
        assert_eq!(ttl_of(month), month);
        assert_eq!(ttl_of(month.plus(Span::from_micros(1))), month.plus(Span::from_secs(1)), "never early");
    }

    #[test]
    fn an_oversized_item_is_refused_with_a_reason() {
        let mut item = item(NOON);
        let slot = tollway_core::Slot { permit: tollway_core::PermitId(u128::MAX), expires: NOON };
        let state = tollway_core::State::Slots(vec![slot; 9_000]);
        item.account.meters = [tollway_core::Meter { identity: 1, state }].into_iter().collect();
        let error = item.write("1:1:p:s", NOON).unwrap_err();
        assert_eq!((error.fault, error.retry), (Fault::Caller, Retry::Useless));
    }
}
