//! Slots: held from grant until `done`, each with an expiry of its own, so that a crash frees them too.

use serde::{Deserialize, Serialize};

use crate::{PermitId, Span, Timestamp};

/// One call under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The permit that holds it.
    pub permit: PermitId,
    /// When it is free again without `done` or `renew`.
    pub expires: Timestamp,
}

/// How many slots are held at `at`.
pub(super) fn held(slots: &[Slot], at: Timestamp) -> usize {
    slots.iter().filter(|slot| slot.expires > at).count()
}

/// The earliest moment from `from` on at which one more slot is free, if nobody is done before.
pub(super) fn earliest(slots: &[Slot], amount: u64, from: Timestamp) -> Timestamp {
    let amount = usize::try_from(amount).unwrap_or(usize::MAX);
    let held = held(slots, from);
    let Some(too_many) = held.checked_sub(amount) else { return from };
    let mut ends: Vec<Timestamp> = slots.iter().map(|slot| slot.expires).filter(|end| *end > from).collect();
    ends.sort_unstable();
    ends.get(too_many).copied().unwrap_or(from)
}

/// Holds a slot for `permit`, and forgets those that have expired.
pub(super) fn hold(slots: &mut Vec<Slot>, permit: PermitId, at: Timestamp, expires: Span) {
    slots.retain(|slot| slot.expires > at);
    slots.push(Slot { permit, expires: at.plus(expires) });
}

/// Whether `permit` holds a slot at `at`.
pub(super) fn holds(slots: &[Slot], permit: PermitId, at: Timestamp) -> bool {
    slots.iter().any(|slot| slot.permit == permit && slot.expires > at)
}

/// Prolongs the slot of `permit`.
pub(super) fn renew(slots: &mut [Slot], permit: PermitId, at: Timestamp, expires: Span) {
    if let Some(slot) = slots.iter_mut().find(|slot| slot.permit == permit) {
        slot.expires = slot.expires.max(at.plus(expires));
    }
}
