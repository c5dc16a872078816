//! Slots: held from the grant until `done`. Each has its own expiry, so that a crashed caller frees its slots too.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rules::check_period;
use super::{Advance, AlgorithmRules, Correction, Debited, Room, State};
use crate::bounds::{SLOT_EXPIRES_DEFAULT, SLOTS_MAX};
use crate::{Limit, LimitError, PermitId, Span, Timestamp};

/// Slots that live this long without `renew`.
#[derive(Clone, Copy)]
pub(crate) struct SlotRules {
    pub(crate) expires: Span,
}

impl AlgorithmRules for SlotRules {
    type State = Vec<Slot>;

    fn word(self) -> &'static str {
        "concurrent"
    }

    fn period(self) -> Option<Span> {
        None
    }

    /// Another expiry must not drop the slots in use.
    fn own_name(self) -> Option<&'static str> {
        Some("concurrent")
    }

    fn check(self, amount: u64) -> Result<(), LimitError> {
        check_period(self.expires)?;
        if amount > SLOTS_MAX { Err(LimitError::TooManySlots(amount)) } else { Ok(()) }
    }

    fn longest_memory(self, _: &Limit) -> Span {
        self.expires
    }

    /// Nothing says when a slot is freed.
    fn books_ahead(self) -> bool {
        false
    }

    fn write(self, amount: u64, _: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expires {
            SLOT_EXPIRES_DEFAULT => write!(f, "{amount} concurrent"),
            expires => write!(f, "{amount} concurrent expires {expires}"),
        }
    }

    fn fresh(self) -> State {
        State::Slots(Vec::new())
    }

    fn advance(self, _: &Limit, slots: &mut Vec<Slot>, _: Timestamp, to: Timestamp) {
        expire(slots, to);
    }

    fn earliest(self, _: &Limit, slots: &Vec<Slot>, room: Room, _: Timestamp, from: Timestamp) -> Timestamp {
        earliest(slots, room.capacity, from)
    }

    fn debit(self, _: &Limit, slots: &mut Vec<Slot>, room: Room, span: Advance, permit: PermitId) -> Debited {
        debit(slots, room, permit, span.at, self.expires)
    }

    /// A slot has no amount to correct: it is freed.
    fn settle(self, _: &Limit, _: &mut Vec<Slot>, _: Correction, _: Timestamp) -> bool {
        true
    }

    fn still_good(self, slots: &Vec<Slot>, permit: PermitId, _: Timestamp, now: Timestamp, _: Span) -> bool {
        holds(slots, permit, now)
    }

    fn used(self, _: &Limit, slots: &Vec<Slot>, _: Timestamp, at: Timestamp) -> u64 {
        used(slots, at)
    }

    fn fresh_at(self, _: &Limit, slots: &Vec<Slot>, _: Timestamp) -> Timestamp {
        last_end(slots)
    }
}

/// One call in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The permit that holds it.
    pub permit: PermitId,
    /// When it is freed without `done` or `renew`.
    pub expires: Timestamp,
}

/// How many slots are held at `at`.
fn held(slots: &[Slot], at: Timestamp) -> usize {
    slots.iter().filter(|slot| slot.expires > at).count()
}

/// The earliest time from `from` on at which one more slot is free, without a `done` before.
pub(super) fn earliest(slots: &[Slot], capacity: u64, from: Timestamp) -> Timestamp {
    let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
    let held = held(slots, from);
    let Some(too_many) = held.checked_sub(capacity) else { return from };
    let mut ends: Vec<Timestamp> = slots.iter().map(|slot| slot.expires).filter(|end| *end > from).collect();
    ends.sort_unstable();
    ends.get(too_many).copied().unwrap_or(from)
}

/// How many slots are held at `at`, as an amount.
pub(super) fn used(slots: &[Slot], at: Timestamp) -> u64 {
    u64::try_from(held(slots, at)).unwrap_or(u64::MAX)
}

/// Removes the slots that have expired at `at`.
pub(super) fn expire(slots: &mut Vec<Slot>, at: Timestamp) {
    slots.retain(|slot| slot.expires > at);
}

/// Removes the expired slots, and holds one for `permit` if the amount is not zero.
pub(super) fn debit(
    slots: &mut Vec<Slot>,
    room: Room,
    permit: PermitId,
    at: Timestamp,
    expires: Span,
) -> Debited {
    expire(slots, at);
    let mut good_until = Timestamp::MAX;
    if room.amount > 0 {
        good_until = at.plus(expires);
        slots.push(Slot { permit, expires: good_until });
    }
    Debited { good_until, expires: last_end(slots), holds: used(slots, at) <= room.capacity }
}

/// When the last slot expires.
pub(super) fn last_end(slots: &[Slot]) -> Timestamp {
    slots.iter().map(|slot| slot.expires).max().unwrap_or(Timestamp::EPOCH)
}

/// Frees the slot of `permit`, expired or not.
pub(super) fn free(slots: &mut Vec<Slot>, permit: PermitId) {
    slots.retain(|slot| slot.permit != permit);
}

/// Whether `permit` holds a slot at `at`.
pub(super) fn holds(slots: &[Slot], permit: PermitId, at: Timestamp) -> bool {
    slots.iter().any(|slot| slot.permit == permit && slot.expires > at)
}

/// Extends the slot of `permit`.
pub(super) fn renew(slots: &mut [Slot], permit: PermitId, at: Timestamp, expires: Span) {
    if let Some(slot) = slots.iter_mut().find(|slot| slot.permit == permit) {
        slot.expires = slot.expires.max(at.plus(expires));
    }
}
