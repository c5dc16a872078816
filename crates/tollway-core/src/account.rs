//! A line: all meters of one policy for one subject, and the place up to which they are booked.
//!
//! This is what a store keeps, locks and writes: one line per (policy, subject).

use serde::{Deserialize, Serialize};

use crate::algorithm::Meter;
use crate::bounds::{CALL_IDS_MAX, ORPHANS_MAX, REFUNDS_MAX};
use crate::meters::Meters;
use crate::{CallId, PermitId, Policy, Timestamp};

/// All meters of one policy for one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The newest clock reading that a change has recorded (I7).
    pub seen: Timestamp,
    /// When the line is as good as new: a store may forget it from then on, and not before (I6).
    pub expires: Timestamp,
    /// One meter per limit, in the policy's order, all as of [`Account::as_of`].
    pub meters: Meters,
    /// What most lines do not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Box<Extra>>,
}

/// What most lines do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extra {
    /// The place of the last booking. Nobody waits ahead unless it lies after now.
    pub frontier: Timestamp,
    /// The limit that made the last booking wait, by its index in the policy.
    pub frontier_limit: u8,
    /// The state before the last booking, while nothing has changed since.
    pub undo: Option<Undo>,
    /// Callers' ids that count once.
    pub calls: Vec<RememberedCall>,
    /// Permits that were settled or returned over a protocol in which that could be repeated.
    pub refunds: Vec<Refund>,
    /// Meters of limits that this policy does not name, but another process or an earlier file did.
    pub orphans: Vec<Orphan>,
    /// When the line was last reset; permits granted before settle nothing.
    pub epoch: Timestamp,
    /// Until when a permit from before the reset could still matter.
    pub epoch_expires: Timestamp,
}

/// The state before the last booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The permit of that booking.
    pub permit: PermitId,
    /// The meters before it.
    pub meters: Meters,
    /// What they were as of.
    pub as_of: Timestamp,
    /// The frontier before it.
    pub frontier: Timestamp,
    /// And the limit that had set it.
    pub frontier_limit: u8,
}

/// A take that was granted under a caller's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedCall {
    /// The caller's id.
    pub id: CallId,
    /// What was asked, so that the same id with another cost is noticed.
    pub asked: u64,
    /// What was answered.
    pub grant: RememberedGrant,
    /// Until when the id counts once.
    pub expires: Timestamp,
}

/// What was answered to a take under a caller's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields of `Booking` and `Decision` of the same names")]
pub struct RememberedGrant {
    pub permit: PermitId,
    pub granted_at: Timestamp,
    pub at: Timestamp,
    pub good_until: Timestamp,
    #[serde(default)]
    pub would_deny: u16,
}

/// A permit that was settled or returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The permit.
    pub permit: PermitId,
    /// Until when a second refund would still count.
    pub expires: Timestamp,
}

/// A meter without its limit, kept until it is as good as new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// The meter.
    pub meter: Meter,
    /// What it is as of.
    pub as_of: Timestamp,
    /// When it is as good as new.
    pub expires: Timestamp,
}

impl Account {
    /// A line that nobody has touched.
    pub fn new(policy: &Policy) -> Self {
        Self { meters: policy.limits().iter().map(|limit| limit.fresh_meter()).collect(), ..Self::default() }
    }

    /// What the meters are as of: the last change, or the last booking if that lies later.
    pub fn as_of(&self) -> Timestamp {
        self.seen.max(self.frontier())
    }

    /// The place of the last booking: nobody waits ahead unless it lies after now.
    #[inline]
    pub fn frontier(&self) -> Timestamp {
        self.extra.as_ref().map_or(Timestamp::EPOCH, |extra| extra.frontier)
    }

    /// The limit that made the last booking wait, by its index in the policy.
    pub(crate) fn frontier_limit(&self) -> usize {
        self.extra.as_ref().map_or(0, |extra| usize::from(extra.frontier_limit))
    }

    /// Whether the meters are those of `policy`, in its order and of its kinds.
    #[inline]
    pub(crate) fn fits(&self, policy: &Policy) -> bool {
        let limits = policy.limits();
        self.meters.len() == limits.len()
            && self.meters.iter().zip(limits).all(|(meter, limit)| limit.owns(meter))
    }

    /// Makes the meters those of `policy`, in its order. Without effect unless the policy's limits have changed, or a meter
    /// is of another kind than its limit: that one is replaced by a fresh one.
    pub(crate) fn fit(&mut self, policy: &Policy) {
        if !self.fits(policy) {
            self.refit(policy);
        }
    }

    #[cold]
    fn refit(&mut self, policy: &Policy) {
        let as_of = self.as_of();
        let expires = self.expires;
        let mut left: Vec<Orphan> = std::mem::take(&mut self.meters)
            .into_vec()
            .into_iter()
            .map(|meter| Orphan { expires, meter, as_of })
            .collect();
        let extra = self.extra_mut();
        extra.undo = None;
        left.append(&mut extra.orphans);
        let mut meters = Vec::new();
        for limit in policy.limits() {
            let found = left.iter().position(|orphan| orphan.meter.identity == limit.identity());
            let found = found.map(|index| left.swap_remove(index)).filter(|orphan| limit.owns(&orphan.meter));
            let meter = found.map(|mut orphan| {
                // Slots end when they say, and are held by the clock, not by the line.
                if !limit.has_slots() {
                    limit.advance(&mut orphan.meter, orphan.as_of, as_of);
                }
                orphan.meter
            });
            meters.push(meter.unwrap_or_else(|| limit.fresh_meter()));
        }
        left.retain(|orphan| orphan.expires > as_of && !policy.forgets());
        // Those that would have counted longest are kept.
        left.sort_unstable_by_key(|orphan| std::cmp::Reverse(orphan.expires));
        left.truncate(ORPHANS_MAX);
        self.meters = meters.into_iter().collect();
        let extra = self.extra_mut();
        extra.orphans = left;
        extra.frontier_limit = 0;
        self.drop_empty_extra();
    }

    /// Notes a debit at `now`: the clock reading, and when the meters will be as good as new.
    #[inline]
    pub(crate) fn changed(&mut self, now: Timestamp, meters_expire: Timestamp, policy: &Policy) {
        self.seen = now;
        self.expires = meters_expire.max(now);
        if self.extra.is_some() {
            self.drop_undo();
            self.note_expiry(policy);
        }
    }

    /// Records a clock reading, and brings the meters along.
    pub(crate) fn bring_to(&mut self, policy: &Policy, now: Timestamp) {
        let as_of = self.as_of();
        self.seen = self.seen.max(now);
        let to = self.as_of();
        for (limit, meter) in policy.limits().iter().zip(&mut *self.meters) {
            limit.advance(meter, as_of, to);
        }
    }

    /// Notes when the line will be as good as new. The last step of every change.
    pub(crate) fn note_expiry(&mut self, policy: &Policy) {
        self.expires = self.good_as_new_at(policy);
    }

    /// A rate that was lowered since the last change refills later than was thought then: keeps the line for longer (I6),
    /// and says whether it did.
    pub(crate) fn keep_longer(&mut self, policy: &Policy) -> bool {
        let expires = self.good_as_new_at(policy);
        let longer = expires > self.expires && self.expires > Timestamp::EPOCH;
        if longer {
            self.expires = expires;
        }
        longer
    }

    fn good_as_new_at(&self, policy: &Policy) -> Timestamp {
        let as_of = self.as_of();
        let meters = self.meters.iter().zip(policy.limits());
        let meters = meters.map(|(meter, limit)| limit.good_as_new_at(meter, as_of)).max();
        // Never before what it has seen: a clock that went back must not find a window new that has passed (I7).
        let own = meters.unwrap_or(Timestamp::EPOCH).max(as_of);
        match &self.extra {
            None => own,
            Some(extra) => own.max(extra.forgettable_at()),
        }
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Something else has changed since the last booking; and nobody stands in a line that lies behind.
    pub(crate) fn drop_undo(&mut self) {
        let seen = self.seen;
        if let Some(extra) = &mut self.extra {
            extra.undo = None;
            if extra.frontier <= seen {
                (extra.frontier, extra.frontier_limit) = (Timestamp::EPOCH, 0);
            }
            self.drop_empty_extra();
        }
    }

    pub(crate) fn drop_empty_extra(&mut self) {
        if self.extra.as_deref() == Some(&Extra::default()) {
            self.extra = None;
        }
    }

    /// When the line was last reset.
    pub(crate) fn epoch(&self) -> Timestamp {
        self.extra.as_ref().map_or(Timestamp::EPOCH, |extra| extra.epoch)
    }
}

impl Extra {
    /// The take that was granted under this id, if it still counts.
    pub(crate) fn call(&self, id: &CallId, now: Timestamp) -> Option<&RememberedCall> {
        self.calls.iter().find(|call| call.id == *id && call.expires > now)
    }

    /// Whether one more id can be remembered.
    pub(crate) fn has_room_for_call(&self, now: Timestamp) -> bool {
        self.calls.len() < CALL_IDS_MAX || self.calls.iter().any(|call| call.expires <= now)
    }

    pub(crate) fn remember_call(&mut self, call: RememberedCall, now: Timestamp) {
        self.calls.retain(|known| known.expires > now);
        self.calls.push(call);
    }

    /// Remembers that a permit was refunded; says whether this is the first time and there was room.
    pub(crate) fn remember_refund(&mut self, refund: Refund, now: Timestamp) -> RefundMemory {
        self.refunds.retain(|known| known.expires > now);
        if self.refunds.iter().any(|known| known.permit == refund.permit) {
            return RefundMemory::Repeated;
        }
        if self.refunds.len() >= REFUNDS_MAX {
            return RefundMemory::Full;
        }
        self.refunds.push(refund);
        RefundMemory::First
    }

    /// When nothing of it matters any more.
    pub(crate) fn forgettable_at(&self) -> Timestamp {
        let calls = self.calls.iter().map(|call| call.expires);
        let refunds = self.refunds.iter().map(|refund| refund.expires);
        let orphans = self.orphans.iter().map(|orphan| orphan.expires);
        calls.chain(refunds).chain(orphans).chain([self.epoch_expires]).max().unwrap_or(Timestamp::EPOCH)
    }
}

/// What came of remembering a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefundMemory {
    First,
    Repeated,
    Full,
}
