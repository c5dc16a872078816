//! What a take is answered: granted, now or at an exact later time, or denied, with when to come back.

use serde::{Deserialize, Serialize};

use crate::store::Booking;
use crate::{Limit, Name, PermitId, Span, Subject, Timestamp};

/// The answer to a take. Denial is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The whole cost was taken.
    Granted(Grant),
    /// Nothing was taken.
    Denied(Denial),
}

/// A granted take. All times are the store's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The permit, as the caller named it; of a repeated call, the first one's.
    pub permit: PermitId,
    /// When it was granted; of a repeated call, the first time.
    pub granted_at: Timestamp,
    /// When this answer was given.
    #[serde(skip)]
    pub now: Timestamp,
    /// When the call may begin: now, or its place in line.
    pub at: Timestamp,
    /// Until when it may begin.
    pub good_until: Timestamp,
    /// Whether the caller's id had been granted before; nothing was taken this time.
    #[serde(skip)]
    pub repeated: bool,
    /// Whether a meter holds more than its limit after all: I1 is broken, and a store must raise an alarm.
    #[serde(skip)]
    pub over: bool,
    /// The shadow policies that would have denied, by their index in the take, as bits.
    #[serde(default)]
    pub would_deny: u16,
    /// One reading per limit of each policy, if the take asked for them.
    #[serde(skip)]
    pub readings: Vec<Reading>,
}

impl Grant {
    /// What its permit remembers of it.
    pub fn booking(&self) -> Booking {
        Booking { permit: self.permit, granted_at: self.granted_at, at: self.at, good_until: self.good_until }
    }

    /// A grant for now without an end, before any limit has had its say.
    pub fn at_once(permit: PermitId, now: Timestamp) -> Self {
        let (granted_at, at, good_until, readings) = (now, now, Timestamp::MAX, Vec::new());
        Self {
            permit,
            granted_at,
            now,
            at,
            good_until,
            repeated: false,
            over: false,
            would_deny: 0,
            readings,
        }
    }

    /// How long the caller has to wait from the decision on.
    pub fn delay(&self) -> Span {
        self.at.since(self.now)
    }
}

/// All there is to say of most grants: when it was decided, which is when it may begin, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantNow {
    /// When it was decided.
    pub now: Timestamp,
    /// Until when it may begin.
    pub good_until: Timestamp,
}

/// A denial of one policy for somebody who does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenyNow {
    /// When it was decided.
    pub now: Timestamp,
    /// When the cost fits.
    pub retry_at: Timestamp,
    /// Which limit said no, by index.
    pub limit: usize,
}

impl DenyNow {
    /// The denial in full.
    pub fn in_full(self) -> Denial {
        let Self { now, retry_at, limit } = self;
        Denial { now, retry_at, party: 0, limit, readings: Vec::new() }
    }
}

/// What is decided of a take under one policy, now or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecideNow {
    /// The whole cost was taken.
    Granted(GrantNow),
    /// Nothing was taken.
    Denied(DenyNow),
}

impl GrantNow {
    /// What its permit remembers of it.
    #[inline]
    pub fn booking(self, permit: PermitId) -> Booking {
        Booking { permit, granted_at: self.now, at: self.now, good_until: self.good_until }
    }

    /// The grant in full.
    pub fn of_permit(self, permit: PermitId) -> Grant {
        Grant { good_until: self.good_until, ..Grant::at_once(permit, self.now) }
    }
}

/// A denied take. All times are the store's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// When it was decided.
    pub now: Timestamp,
    /// When the cost fits, if nobody takes or gives back before.
    pub retry_at: Timestamp,
    /// Which of the take's policies said no, by index.
    pub party: usize,
    /// Which of its limits, by index.
    pub limit: usize,
    /// One reading per limit of each policy, if the take asked for them.
    pub readings: Vec<Reading>,
}

impl Denial {
    /// How long until the cost fits, from the decision on.
    pub fn retry_after(&self) -> Span {
        self.retry_at.since(self.now)
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
    SamePartyTwice {
        /// The policy.
        policy: Name,
        /// The subject.
        subject: Subject,
    },
    /// No policy, or too many.
    #[error("a take names {0} policies; it may name 1 to {max}", max = crate::bounds::PARTIES_PER_TAKE_MAX)]
    PartyCount(usize),
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
