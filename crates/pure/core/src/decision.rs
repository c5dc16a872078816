//! The decision on a take: granted, now or at an exact later time, or denied, with the time to retry.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{Booking, Limit, Name, PermitId, Policy, Span, Subject, Timestamp};

/// The decision on a take. Every store, server and client uses this type. A denial is an outcome, not an error.
///
/// All times are the store's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When it was decided; of a repeated call, when the answer was repeated.
    pub now: Timestamp,
    /// Whether the caller's id was granted before. Nothing was taken this time.
    pub repeated: bool,
    /// Whether it was decided without the store.
    pub degraded: bool,
    /// Whether a meter exceeds its limit: I1 is broken, and the store must raise an alarm.
    pub over: bool,
    /// The shadow policies that would have denied, by the index of their charge, as bits.
    pub would_deny: u16,
    /// How many accounts were made, if the take asks for it and the store heeds that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accounts_made: u16,
    /// Granted or denied.
    pub outcome: TakeOutcome,
    /// The readings of every limit, one entry per charge; empty unless the take asked for readings.
    pub charges: SmallVec<[ChargeStatus; 1]>,
}

/// Granted or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TakeOutcome {
    /// The whole cost was taken.
    Granted(Booking),
    /// Nothing was taken.
    Denied(Denial),
}

/// Which limit denied a take, and when the cost fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// When the cost fits, if nothing is taken or returned before.
    pub retry_at: Timestamp,
    /// The charge whose policy denied, by index.
    pub charge: usize,
    /// The limit of that policy, by index.
    pub limit: usize,
    /// Whether the vendor's hold, not this limit, makes the take wait.
    pub held: bool,
}

/// The readings of one charge's policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargeStatus {
    /// The policy.
    pub policy: Arc<Policy>,
    /// One reading per limit, in the policy's order.
    pub readings: Vec<Reading>,
    /// The end of a vendor's hold on the account.
    pub held_until: Option<Timestamp>,
}

impl Decision {
    /// A decision with this outcome and every flag unset.
    pub fn new(now: Timestamp, outcome: TakeOutcome) -> Self {
        let charges = SmallVec::new();
        let (would_deny, accounts_made) = (0, 0);
        Self {
            now,
            repeated: false,
            degraded: false,
            over: false,
            would_deny,
            accounts_made,
            outcome,
            charges,
        }
    }

    /// A grant for now without an end.
    pub fn granted_now(permit: PermitId, now: Timestamp) -> Self {
        let booking = Booking { permit, granted_at: now, at: now, good_until: Timestamp::MAX };
        Self::new(now, TakeOutcome::Granted(booking))
    }

    /// Whether the cost was taken.
    pub fn is_granted(&self) -> bool {
        matches!(self.outcome, TakeOutcome::Granted(_))
    }

    /// The booking, if it was granted.
    pub fn booking(&self) -> Option<&Booking> {
        match &self.outcome {
            TakeOutcome::Granted(booking) => Some(booking),
            TakeOutcome::Denied(_) => None,
        }
    }

    /// The denial, if it was denied.
    pub fn denial(&self) -> Option<&Denial> {
        match &self.outcome {
            TakeOutcome::Granted(_) => None,
            TakeOutcome::Denied(denial) => Some(denial),
        }
    }

    /// How long the caller waits: until its place in the queue if granted, until the cost fits if denied.
    pub fn wait(&self) -> Span {
        match &self.outcome {
            TakeOutcome::Granted(booking) => booking.at.since(self.now),
            TakeOutcome::Denied(denial) => denial.retry_at.since(self.now),
        }
    }

    /// The readings of the charge at this index; empty unless the take asked for readings.
    pub fn readings_of(&self, charge: usize) -> &[Reading] {
        self.charges.get(charge).map_or(&[], |status| &status.readings)
    }

    /// Whether the charge at this index is a shadow that would have denied.
    pub fn would_deny_of(&self, charge: usize) -> bool {
        self.would_deny & shadow_bit(charge) != 0
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// The bit of a charge in [`Decision::would_deny`].
pub(crate) fn shadow_bit(charge: usize) -> u16 {
    u32::try_from(charge).ok().and_then(|index| 1u16.checked_shl(index)).unwrap_or(0)
}

/// A decision of the fast path: one policy, no id, no wait, no readings. Small enough to be returned in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastDecision {
    /// The whole cost was taken. The call may begin at once.
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
    /// The full decision, under this permit.
    pub fn in_full(self, permit: PermitId) -> Decision {
        match self {
            Self::Granted { now, good_until } => {
                let booking = Booking { permit, granted_at: now, at: now, good_until };
                Decision::new(now, TakeOutcome::Granted(booking))
            }
            Self::Denied { now, retry_at, limit } => {
                Decision::new(now, TakeOutcome::Denied(Denial { retry_at, charge: 0, limit, held: false }))
            }
        }
    }
}

/// The reading of one meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The amount in force; a bucket's burst is its capacity.
    pub capacity: u64,
    /// What is used, rounded up. Can be above the capacity after a settle or a lowered limit.
    pub used: u64,
    /// What is left.
    pub remaining: u64,
    /// When nothing is used any more.
    pub resets_at: Timestamp,
    /// The time of the reading: now, or the account's frontier if that is later.
    pub as_of: Timestamp,
    /// Calls granted so far under an adaptive limit; 0 for other limits.
    pub grants: u64,
}

/// Why an operation was refused: a caller error. Nothing has changed.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
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
        /// The cost.
        cost: u64,
        /// The most the limit can grant.
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
    #[error("policy {policy} appears twice in one take for the same subject; add the costs up instead")]
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
    /// The call with this id no longer holds its slots, so its permit cannot be returned again.
    #[error("the call with the id {0:?} is over and its slot is free; a new call needs a new id")]
    CallOver(String),
    /// The state of a controller exceeds the bound.
    #[error("a controller's state of {0} bytes is more than the {max} allowed", max = crate::bounds::CONTROLLER_BYTES_MAX)]
    ControllerTooLong(usize),
    /// The account remembers the maximum number of ids.
    #[error("this subject has {max} ids in the last ten minutes; no more can be remembered", max = crate::bounds::CALL_IDS_MAX)]
    TooManyIds,
}

crate::debug_as_display!(Refusal);

pub(crate) fn above_limit(policy: &Name, limit: &Limit, cost: u64) -> Refusal {
    Refusal::AboveLimit {
        policy: policy.clone(),
        limit: limit.name().clone(),
        cost,
        capacity: limit.capacity(),
    }
}
