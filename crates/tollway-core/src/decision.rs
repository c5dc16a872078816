//! What a take is answered: granted, now or at an exact later time, or denied, with when to come back.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{Booking, Limit, Name, PermitId, Policy, Span, Subject, Timestamp};

/// What a take was decided: one type from every store to every edge. Denial is an outcome, not an error.
///
/// All times are the store's.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When it was decided; of a repeated call, when the answer was repeated.
    pub now: Timestamp,
    /// Whether the caller's id had been granted before; nothing was taken this time.
    pub repeated: bool,
    /// Whether it was decided without the store.
    pub degraded: bool,
    /// Whether a meter holds more than its limit after all: I1 is broken, and a store must raise an alarm.
    pub over: bool,
    /// The shadow policies that would have denied, by the index of their charge, as bits.
    pub would_deny: u16,
    /// Granted or denied.
    pub outcome: TakeOutcome,
    /// What every limit shows, one entry a charge; empty unless the take asked for readings.
    pub charges: SmallVec<[ChargeStatus; 1]>,
}

/// Granted or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The whole cost was taken.
    Granted(Booking),
    /// Nothing was taken.
    Denied(Denial),
}

/// Which limit denied a take, and when the cost fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// When the cost fits, if nothing is taken or returned before.
    pub retry_at: Timestamp,
    /// The charge whose policy denied, by index.
    pub charge: usize,
    /// The limit of that policy, by index.
    pub limit: usize,
}

/// What the limits of one charge's policy show.
#[derive(Clone, Debug, PartialEq)]
pub struct ChargeStatus {
    /// The policy.
    pub policy: Arc<Policy>,
    /// One reading a limit, in the policy's order.
    pub readings: Vec<Reading>,
}

impl Decision {
    /// A decision with nothing else to say.
    pub fn new(now: Timestamp, outcome: TakeOutcome) -> Self {
        let charges = SmallVec::new();
        Self { now, repeated: false, degraded: false, over: false, would_deny: 0, outcome, charges }
    }

    /// A grant for now that does not end, before any limit has shortened it.
    pub fn granted_now(permit: PermitId, now: Timestamp) -> Self {
        let booking = Booking { permit, granted_at: now, at: now, good_until: Timestamp::MAX };
        Self::new(now, TakeOutcome::Granted(booking))
    }

    /// Whether the cost was taken.
    pub fn is_granted(&self) -> bool {
        matches!(self.outcome, TakeOutcome::Granted(_))
    }

    /// What its permit keeps, if it was granted.
    pub fn booking(&self) -> Option<&Booking> {
        match &self.outcome {
            TakeOutcome::Granted(booking) => Some(booking),
            TakeOutcome::Denied(_) => None,
        }
    }

    /// Which limit denied it, if one did.
    pub fn denial(&self) -> Option<&Denial> {
        match &self.outcome {
            TakeOutcome::Granted(_) => None,
            TakeOutcome::Denied(denial) => Some(denial),
        }
    }

    /// How long the caller waits from the decision on: until its place if granted, until the cost fits if denied.
    pub fn wait(&self) -> Span {
        match &self.outcome {
            TakeOutcome::Granted(booking) => booking.at.since(self.now),
            TakeOutcome::Denied(denial) => denial.retry_at.since(self.now),
        }
    }

    /// What every limit of the charge at this index shows; empty unless the take asked for readings.
    pub fn readings_of(&self, charge: usize) -> &[Reading] {
        self.charges.get(charge).map_or(&[], |status| &status.readings)
    }

    /// Whether the charge at this index is a shadow that would have denied.
    pub fn would_deny_of(&self, charge: usize) -> bool {
        self.would_deny & shadow_bit(charge) != 0
    }
}

/// The bit of [`Decision::would_deny`] that stands for a charge.
pub(crate) fn shadow_bit(charge: usize) -> u16 {
    u32::try_from(charge).ok().and_then(|index| 1u16.checked_shl(index)).unwrap_or(0)
}

/// A decision of the fast path: one policy, no id, no wait, no readings. Small enough to be returned in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastDecision {
    /// The whole cost was taken, to begin at once.
    Granted {
        /// When it was decided.
        now: Timestamp,
        /// Until when the call may begin.
        good_until: Timestamp,
    },
    /// Nothing was taken.
    Denied {
        /// When it was decided.
        now: Timestamp,
        /// When the cost fits.
        retry_at: Timestamp,
        /// The limit that denied, by index.
        limit: usize,
    },
}

impl FastDecision {
    /// The decision in full, under this permit.
    pub fn in_full(self, permit: PermitId) -> Decision {
        match self {
            Self::Granted { now, good_until } => {
                let booking = Booking { permit, granted_at: now, at: now, good_until };
                Decision::new(now, TakeOutcome::Granted(booking))
            }
            Self::Denied { now, retry_at, limit } => {
                Decision::new(now, TakeOutcome::Denied(Denial { retry_at, charge: 0, limit }))
            }
        }
    }
}

/// What one meter shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The amount in force; a bucket's burst is its capacity.
    pub capacity: u64,
    /// What is used, rounded up. Can be above the capacity after a settle or a lowered limit.
    pub used: u64,
    /// What is left.
    pub remaining: u64,
    /// When it is whole again.
    pub resets_at: Timestamp,
    /// What the reading is as of: now, or the line's frontier if that lies ahead.
    pub as_of: Timestamp,
}

/// Why an operation was refused: the caller asked for something that cannot be. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A cost that this limit could never grant.
    #[error(
        "a cost of {cost} can never be granted by {limit} of policy {policy}, which grants at most {capacity}"
    )]
    AboveLimit {
        /// The policy.
        policy: Name,
        /// The limit.
        limit: Name,
        /// What was asked.
        cost: u64,
        /// The most it could grant.
        capacity: u64,
    },
    /// An overrun of more than one burst.
    #[error(
        "settling {overrun} more than was taken exceeds the burst of {limit} of policy {policy}, {burst}"
    )]
    OverrunTooLarge {
        /// The policy.
        policy: Name,
        /// The limit.
        limit: Name,
        /// How much more than reserved.
        overrun: u64,
        /// The most it may be.
        burst: u64,
    },
    /// One policy and subject named twice in one take.
    #[error("policy {policy} stands twice in one take for the same subject; add the costs up instead")]
    SameChargeTwice {
        /// The policy.
        policy: Name,
        /// The subject.
        subject: Subject,
    },
    /// No policy, or too many.
    #[error("a take names {0} policies; it may name 1 to {max}", max = crate::bounds::CHARGES_PER_TAKE_MAX)]
    ChargeCount(usize),
    /// The id was used for another cost, policy or subject.
    #[error("the id {0:?} was used before for another take")]
    IdReused(String),
    /// The call with this id holds its slots no longer, so the same permit cannot be answered again.
    #[error("the call with the id {0:?} is over and its slot is free; a new call needs a new id")]
    CallOver(String),
    /// The line remembers as many ids as it can.
    #[error("this subject has {max} ids in the last ten minutes; no more can be remembered", max = crate::bounds::CALL_IDS_MAX)]
    TooManyIds,
}

pub(crate) fn above_limit(policy: &Name, limit: &Limit, cost: u64) -> Refusal {
    Refusal::AboveLimit {
        policy: policy.clone(),
        limit: limit.name().clone(),
        cost,
        capacity: limit.capacity(),
    }
}
