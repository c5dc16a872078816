//! An item as read: its count, and the marks of its writers.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use tollway_core::{Fault, Retry, StoreError};

use super::proof::{Mark, PUSHED_OUT, SLOTS, attribute};

/// The attribute that counts.
pub(super) const COUNT: &str = "request_count";

/// An item as read. A missing item has a count of 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MinuteItem {
    pub(super) count: u64,
    /// Marks by slot.
    pub(super) marks: HashMap<usize, Mark>,
    /// When a live mark was last evicted, in seconds since 1970; 0 for never.
    pub(super) pushed_out: u64,
}

impl MinuteItem {
    /// Reads an item.
    pub(super) fn of(item: &HashMap<String, AttributeValue>) -> Result<Self, StoreError> {
        let mark = |slot: usize| Some((slot, Mark::of_attribute(item.get(&attribute(slot))?)?));
        let pushed_out = item.get(PUSHED_OUT).and_then(|value| value.as_n().ok()?.parse().ok());
        Ok(Self {
            count: count_of(item)?,
            marks: (0..SLOTS).filter_map(mark).collect(),
            pushed_out: pushed_out.unwrap_or(0),
        })
    }

    /// The mark of this writer.
    pub(super) fn mark_of(&self, writer: &str) -> Option<&Mark> {
        self.marks.values().find(|mark| mark.writer == writer)
    }
}

/// The count of an item; one without it counts from 0, as a conditional write does.
pub(super) fn count_of(item: &HashMap<String, AttributeValue>) -> Result<u64, StoreError> {
    let Some(count) = item.get(COUNT) else { return Ok(0) };
    let number = count.as_n().ok().and_then(|number| number.parse::<i64>().ok());
    // Another program returned more than it took: the count is negative, which means 0.
    number.map(|number| u64::try_from(number).unwrap_or(0)).ok_or_else(|| {
        let message =
            format!("`{COUNT}` of an item in DynamoDB is not a whole number; delete the item to start over");
        StoreError { fault: Fault::Account, retry: Retry::Useless, message }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(count: AttributeValue) -> HashMap<String, AttributeValue> {
        [(COUNT.to_owned(), count)].into()
    }

    #[test]
    fn a_count_is_a_whole_number_or_an_error_that_says_what_to_do() {
        assert_eq!(count_of(&HashMap::new()), Ok(0));
        assert_eq!(count_of(&item(AttributeValue::N("42".into()))), Ok(42));
        assert_eq!(count_of(&item(AttributeValue::N("-1".into()))), Ok(0));
        for wrong in [AttributeValue::S("42".into()), AttributeValue::N("1.5".into())] {
            let error = count_of(&item(wrong)).unwrap_err();
            assert!(error.message.contains("delete the item") && error.retry == Retry::Useless, "{error}");
        }
    }
}
