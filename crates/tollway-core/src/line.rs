//! A line: all meters of one policy for one subject, and the place up to which they are booked.
//!
//! This is what a store keeps, locks and writes: one line per (policy, subject).

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::algorithm::Meter;
use crate::bounds::{CALL_IDS_MAX, ORPHANS_MAX, REFUNDS_MAX};
use crate::decision::Grant;
use crate::{CallId, PermitId, Policy, Timestamp};

/// The meters of a line; a policy with one limit keeps its meter inline.
pub type Meters = SmallVec<[Meter; 1]>;

/// All meters of one policy for one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The newest clock reading that a change has recorded (I7).
    pub seen: Timestamp,
    /// The place of the last booking. Nobody waits ahead unless it lies after now.
    pub frontier: Timestamp,
    /// When the line is as good as new: a store may forget it from then on, and not before (I6).
    pub expires: Timestamp,
    /// The limit that made the last booking wait, by its index in the policy.
    pub frontier_limit: u8,
    /// One meter per limit, in the policy's order, all as of [`Line::as_of`].
    pub meters: Meters,
    /// What most lines do not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Box<Extra>>,
}

/// What most lines do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extra {
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
    pub grant: Grant,
    /// Until when the id counts once.
    pub expires: Timestamp,
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

impl Line {
    /// A line that nobody has touched.
    pub fn new(policy: &Policy) -> Self {
        Self { meters: policy.limits().iter().map(|limit| limit.fresh_meter()).collect(), ..Self::default() }
    }

    /// What the meters are as of: the last change, or the last booking if that lies later.
    pub fn as_of(&self) -> Timestamp {
        self.seen.max(self.frontier)
    }

    /// Makes the meters those of `policy`, in its order. Without effect unless the policy's limits have changed.
    pub fn fit(&mut self, policy: &Policy) {
        let limits = policy.limits();
        let fits = self.meters.len() == limits.len()
            && self.meters.iter().zip(limits).all(|(meter, limit)| meter.identity == limit.identity());
        if !fits {
            self.refit(policy);
        }
    }

    #[cold]
    fn refit(&mut self, policy: &Policy) {
        let as_of = self.as_of();
        let expires = self.expires;
        let mut left: Vec<Orphan> = std::mem::take(&mut self.meters)
            .into_iter()
            .map(|meter| Orphan { expires, meter, as_of })
            .collect();
        let extra = self.extra_mut();
        extra.undo = None;
        left.append(&mut extra.orphans);
        let mut meters = Meters::new();
        for limit in policy.limits() {
            let found = left.iter().position(|orphan| orphan.meter.identity == limit.identity());
            let meter = found.map(|index| left.swap_remove(index)).map(|mut orphan| {
                limit.advance(&mut orphan.meter, orphan.as_of, as_of);
                orphan.meter
            });
            meters.push(meter.unwrap_or_else(|| limit.fresh_meter()));
        }
        left.retain(|orphan| orphan.expires > as_of);
        // Those that would have counted longest are kept.
        left.sort_unstable_by_key(|orphan| std::cmp::Reverse(orphan.expires));
        left.truncate(ORPHANS_MAX);
        self.meters = meters;
        self.extra_mut().orphans = left;
        self.frontier_limit = 0;
        self.drop_empty_extra();
    }

    /// Notes when the line will be as good as new. The last step of every change.
    pub(crate) fn note_expiry(&mut self, policy: &Policy) {
        self.expires = self.good_as_new_at(policy);
    }

    fn good_as_new_at(&self, policy: &Policy) -> Timestamp {
        let as_of = self.as_of();
        let meters = self.meters.iter().zip(policy.limits());
        let meters = meters.map(|(meter, limit)| limit.good_as_new_at(meter, as_of)).max();
        let own = meters.unwrap_or(Timestamp::EPOCH).max(self.frontier);
        match &self.extra {
            None => own,
            Some(extra) => own.max(extra.forgettable_at(policy)),
        }
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(crate) fn drop_undo(&mut self) {
        if let Some(extra) = &mut self.extra {
            extra.undo = None;
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

    fn forgettable_at(&self, policy: &Policy) -> Timestamp {
        let calls = self.calls.iter().map(|call| call.expires);
        let refunds = self.refunds.iter().map(|refund| refund.expires);
        let orphans = self.orphans.iter().map(|orphan| orphan.expires);
        let memories = calls.chain(refunds).chain(orphans).max().unwrap_or(Timestamp::EPOCH);
        if self.epoch == Timestamp::EPOCH {
            return memories;
        }
        let longest = policy.limits().iter().map(|limit| limit.longest_memory()).max().unwrap_or_default();
        memories.max(self.epoch.plus(longest))
    }
}

/// What came of remembering a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefundMemory {
    First,
    Repeated,
    Full,
}
