//! Proofs that a write was applied: each writer leaves a mark in an item, in the same write as the count.
//!
//! A mark has a slot, one of a fixed number, so that items stay small. It names the writer and the number of its write, and
//! a slot is only written on condition that its mark is the writer's own of an earlier write, or expired: so a resent call is
//! applied once. If all slots hold live marks of other writers, the oldest is evicted, and the item records when, so that a
//! writer without its mark knows that this proves nothing.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use tollway_core::{Fingerprint, Timestamp};
use tollway_remote::ANSWER_KEPT;

/// How many marks an item has at the most. Each is some 60 bytes, and a write costs by the kilobyte.
pub(super) const SLOTS: usize = 64;

/// When a live mark was last evicted, in seconds since 1970.
pub(super) const PUSHED_OUT: &str = "pushed_out";

/// How many attempts of one call have distinct numbers.
pub(super) const ATTEMPTS_MAX: u64 = 256;

/// The name of a slot's attribute.
pub(super) fn attribute(slot: usize) -> String {
    format!("writer_{slot}")
}

/// The slot that a writer tries first.
pub(super) fn home(writer: &str) -> usize {
    let slots = u64::try_from(SLOTS).unwrap_or(1);
    usize::try_from(Fingerprint::new().text(writer).finish() % slots).unwrap_or(0)
}

/// The write of one attempt of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(pub(super) u64);

impl Number {
    pub(super) fn new(sequence: u64, attempt: u64) -> Self {
        Self(sequence.saturating_mul(ATTEMPTS_MAX).saturating_add(attempt))
    }

    /// The first that a call of this sequence can have.
    pub(super) fn first_of(sequence: u64) -> Self {
        Self::new(sequence, 0)
    }

    /// Which attempt of the call of this sequence it is, if it is one.
    pub(super) fn attempt_of(self, sequence: u64) -> Option<u64> {
        self.0.checked_sub(Self::first_of(sequence).0).filter(|attempt| *attempt < ATTEMPTS_MAX)
    }
}

/// What a writer leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The writer: a process, and the policy it counts for.
    pub(super) writer: String,
    /// Which of its writes.
    pub(super) number: Number,
    /// When, in seconds since 1970.
    pub(super) at: u64,
}

impl Mark {
    /// As an attribute: `{by, number, at}`.
    pub(super) fn to_attribute(&self) -> AttributeValue {
        let number = |number: u64| AttributeValue::N(number.to_string());
        AttributeValue::M(
            [
                ("by".to_owned(), AttributeValue::S(self.writer.clone())),
                ("number".to_owned(), number(self.number.0)),
                ("at".to_owned(), number(self.at)),
            ]
            .into(),
        )
    }

    /// None if it is not a valid mark: then any writer may overwrite it.
    pub(super) fn of_attribute(attribute: &AttributeValue) -> Option<Self> {
        let fields = attribute.as_m().ok()?;
        let number = |name: &str| fields.get(name)?.as_n().ok()?.parse::<u64>().ok();
        let writer = fields.get("by")?.as_s().ok()?.clone();
        Some(Self { writer, number: Number(number("number")?), at: number("at")? })
    }
}

/// Marks from before this time, in seconds since 1970, have expired.
pub(super) fn stale_before(now: Timestamp) -> u64 {
    seconds(now).saturating_sub(ANSWER_KEPT.as_secs())
}

pub(super) fn seconds(time: Timestamp) -> u64 {
    time.as_micros() / 1_000_000
}

/// Where the next mark goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) index: usize,
    /// The mark that is pushed out for it.
    pub(super) evicts: Option<Mark>,
}

/// The slot for a writer, in an item with these marks: its own, its home, a free one, or that of the oldest mark.
pub(super) fn choose(marks: &HashMap<usize, Mark>, writer: &str, now: Timestamp) -> Slot {
    let free = |slot: &usize| {
        marks.get(slot).is_none_or(|mark| mark.writer == writer || mark.at < stale_before(now))
    };
    let own = (0..SLOTS).find(|slot| marks.get(slot).is_some_and(|mark| mark.writer == writer));
    let home = home(writer);
    let found = own.or_else(|| (home..SLOTS).chain(0..home).find(free));
    match found {
        Some(index) => Slot { index, evicts: None },
        None => {
            let oldest = marks.iter().min_by_key(|(slot, mark)| (mark.at, **slot));
            Slot {
                index: oldest.map_or(home, |(slot, _)| *slot),
                evicts: oldest.map(|(_, mark)| mark.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn mark(writer: &str, at: u64) -> Mark {
        Mark { writer: writer.to_owned(), number: Number(7), at }
    }

    #[test]
    fn a_mark_reads_back_as_itself() {
        let mark = mark("00ff/adobe", 1_000);
        assert_eq!(Mark::of_attribute(&mark.to_attribute()), Some(mark));
        assert_eq!(Mark::of_attribute(&AttributeValue::S("x".into())), None);
    }

    #[test]
    fn a_number_encodes_the_call_and_the_attempt() {
        assert_eq!(Number::new(9, 3).attempt_of(9), Some(3));
        assert_eq!(Number::new(9, 3).attempt_of(8), None);
        assert_eq!(Number::new(9, 3).attempt_of(10), None);
        assert!(Number::new(9, 255) < Number::first_of(10));
    }

    #[test]
    fn a_writer_has_its_own_slot_then_its_home_then_any_that_is_free() {
        assert_eq!(choose(&HashMap::new(), "a", NOW), Slot { index: home("a"), evicts: None });
        let taken: HashMap<usize, Mark> = [(home("a"), mark("b", 999))].into();
        let next = choose(&taken, "a", NOW);
        assert!(next.index != home("a") && next.evicts.is_none());
        let stale: HashMap<usize, Mark> = [(home("a"), mark("b", 900))].into();
        assert_eq!(choose(&stale, "a", NOW).index, home("a"));
        let elsewhere = (home("a") + 5) % SLOTS;
        let own: HashMap<usize, Mark> = [(elsewhere, mark("a", 999))].into();
        assert_eq!(choose(&own, "a", NOW).index, elsewhere);
    }

    #[test]
    fn a_full_item_evicts_the_oldest_mark() {
        let full: HashMap<usize, Mark> =
            (0..SLOTS).map(|slot| (slot, mark("b", 999 - slot as u64 % 7))).collect();
        let slot = choose(&full, "a", NOW);
        assert_eq!((slot.index, slot.evicts), (6, Some(mark("b", 993))));
    }
}
