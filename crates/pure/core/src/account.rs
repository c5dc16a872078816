//! An account: the state of one policy for one subject. It holds the meters and the end of the queue.
//!
//! A store reads, locks and writes whole accounts, one per (policy, subject).

use serde::{Deserialize, Serialize};

use crate::algorithm::Meter;
use crate::bounds::{ORPHANS_MAX, REFUNDS_MAX};
use crate::feedback::Cap;
use crate::meters::Meters;
use crate::remembered_calls::RememberedCalls;
use crate::{Cost, PermitId, Policy, Timestamp};

/// The state of one policy for one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The newest clock reading that a change has recorded (I7).
    pub seen: Timestamp,
    /// When the account equals a fresh one. A store may delete it from then on, not before (I6).
    pub expires: Timestamp,
    /// One meter per limit, in the policy's order, all as of [`Account::as_of`].
    pub meters: Meters,
    /// State that most accounts do not need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Box<Extra>>,
}

/// The parts of an account that most accounts do not need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extra {
    /// The time of the last booking. The queue is empty unless it is later than now.
    pub frontier: Timestamp,
    /// The limit that made the last booking wait, by its index in the policy.
    pub frontier_limit: u8,
    /// The vendor's hold: nothing is granted before.
    #[serde(skip_serializing_if = "is_epoch")]
    pub held_until: Timestamp,
    /// What the vendor says is left of limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caps: Vec<Cap>,
    /// The state before the last booking, while nothing has changed since.
    pub undo: Option<Undo>,
    /// Granted takes by the caller's id, so that a repeated one counts once.
    pub calls: RememberedCalls,
    /// Permits settled or returned over a protocol that can repeat a message.
    pub refunds: Vec<Refund>,
    /// Meters of limits that this policy lacks but another process's or an earlier config has.
    pub orphans: Vec<Orphan>,
    /// When the account was last reset. Permits granted before then cannot be settled.
    #[serde(rename = "epoch")]
    pub reset_at: Timestamp,
    /// When the last permit granted before the reset expires.
    #[serde(rename = "epoch_expires")]
    pub reset_expires: Timestamp,
}

/// The state before the last booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The permit of that booking.
    pub permit: PermitId,
    /// The meters before it.
    pub meters: Meters,
    /// The time they were as of.
    pub as_of: Timestamp,
    /// The frontier before it.
    pub frontier: Timestamp,
    /// The limit that set that frontier.
    pub frontier_limit: u8,
}

/// A permit that was settled or returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The permit.
    pub permit: PermitId,
    /// Until when a second refund of it could have an effect.
    pub expires: Timestamp,
}

/// A meter whose limit the policy no longer has, kept until it equals a fresh one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// The meter.
    pub meter: Meter,
    /// The time it is as of.
    pub as_of: Timestamp,
    /// When it equals a fresh one.
    pub expires: Timestamp,
}

impl Account {
    /// A fresh account: nothing taken.
    pub fn new(policy: &Policy) -> Self {
        Self { meters: policy.limits().iter().map(|limit| limit.fresh_meter()).collect(), ..Self::default() }
    }

    /// The time the meters are as of: the last change, or the last booking if that is later.
    pub fn as_of(&self) -> Timestamp {
        self.seen.max(self.frontier())
    }

    /// The time of the last booking. The queue is empty unless it is later than now.
    #[inline]
    pub fn frontier(&self) -> Timestamp {
        self.extra.as_ref().map_or(Timestamp::EPOCH, |extra| extra.frontier)
    }

    /// The end of the vendor's hold.
    pub(crate) fn held_until(&self) -> Timestamp {
        self.extra.as_ref().map_or(Timestamp::EPOCH, |extra| extra.held_until)
    }

    /// What the vendor says is left of limits.
    #[inline]
    pub(crate) fn caps(&self) -> &[Cap] {
        self.extra.as_ref().map_or(&[], |extra| &extra.caps)
    }

    /// Whether a vendor's answer restricts the account at `now`, so that its meters alone do not decide.
    #[inline]
    pub(crate) fn restricted(&self, now: Timestamp) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.held_until > now || !extra.caps.is_empty())
    }

    /// The limit that made the last booking wait, by its index in the policy.
    pub(crate) fn frontier_limit(&self) -> usize {
        self.extra.as_ref().map_or(0, |extra| usize::from(extra.frontier_limit))
    }

    /// Whether it holds nothing but windows and buckets, as packed accounts do.
    pub fn packs(&self) -> bool {
        self.extra.is_none() && self.meters.iter().all(|meter| meter.state.packs())
    }

    /// Whether the meters match the limits of `policy` in order and kind.
    #[inline]
    pub(crate) fn fits(&self, policy: &Policy) -> bool {
        let limits = policy.limits();
        self.meters.len() == limits.len()
            && self.meters.iter().zip(limits).all(|(meter, limit)| limit.owns(meter))
    }

    /// Rearranges the meters to match the limits of `policy`, if they do not.
    /// A meter of another kind than its limit is replaced by a fresh one.
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
                // Slots carry their own expiry, so they need no advance.
                if !limit.has_slots() {
                    limit.advance(&mut orphan.meter, orphan.as_of, as_of);
                }
                orphan.meter
            });
            meters.push(meter.unwrap_or_else(|| limit.fresh_meter()));
        }
        left.retain(|orphan| orphan.expires > as_of && !policy.forgets());
        // Keeps the meters that expire last.
        left.sort_unstable_by_key(|orphan| std::cmp::Reverse(orphan.expires));
        left.truncate(ORPHANS_MAX);
        self.meters = meters.into_iter().collect();
        let extra = self.extra_mut();
        extra.orphans = left;
        extra.frontier_limit = 0;
        self.drop_empty_extra();
    }

    /// Records a debit at `now`; `meters_expire` is when every meter equals a fresh one.
    #[inline]
    pub(crate) fn record_debit(&mut self, now: Timestamp, meters_expire: Timestamp, policy: &Policy) {
        self.seen = now;
        self.expires = meters_expire.max(now);
        match &self.extra {
            None => {}
            Some(extra) if extra.has_only_calls() => {
                self.expires = self.expires.max(extra.calls.last_expires());
            }
            Some(_) => {
                self.drop_past();
                self.update_expiry(policy);
            }
        }
    }

    /// Records a clock reading and advances the meters to it.
    pub(crate) fn advance_to(&mut self, policy: &Policy, now: Timestamp) {
        let as_of = self.as_of();
        self.seen = self.seen.max(now);
        let to = self.as_of();
        for (limit, meter) in policy.limits().iter().zip(&mut *self.meters) {
            limit.advance(meter, as_of, to);
        }
    }

    /// Recomputes when the account equals a fresh one. The last step of every change.
    pub(crate) fn update_expiry(&mut self, policy: &Policy) {
        self.expires = self.fresh_at(policy);
    }

    /// Moves the expiry later if the policy's rate was lowered since the last change: the meters refill later now.
    /// Returns whether it moved.
    pub(crate) fn extend_expiry(&mut self, policy: &Policy) -> bool {
        let expires = self.fresh_at(policy);
        let longer = expires > self.expires && self.expires > Timestamp::EPOCH;
        if longer {
            self.expires = expires;
        }
        longer
    }

    fn fresh_at(&self, policy: &Policy) -> Timestamp {
        let as_of = self.as_of();
        let meters = self.meters.iter().zip(policy.limits());
        let meters = meters.map(|(meter, limit)| limit.fresh_at(meter, as_of)).max();
        // Not before `seen`: a clock that goes back must not reopen a window that has ended.
        let own = meters.unwrap_or(Timestamp::EPOCH).max(as_of);
        match &self.extra {
            None => own,
            Some(extra) => own.max(extra.expires_at()),
        }
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Drops the undo of the last booking; the frontier if it has passed, because then the queue is empty; and what
    /// the vendor said about a time that has passed.
    pub(crate) fn drop_past(&mut self) {
        let seen = self.seen;
        if let Some(extra) = &mut self.extra {
            extra.undo = None;
            if extra.frontier <= seen {
                (extra.frontier, extra.frontier_limit) = (Timestamp::EPOCH, 0);
            }
            if extra.held_until <= seen {
                extra.held_until = Timestamp::EPOCH;
            }
            extra.caps.retain(|cap| cap.until > seen);
            self.drop_empty_extra();
        }
    }

    pub(crate) fn drop_empty_extra(&mut self) {
        // Remembered ids are what an extra has most often.
        let empty = |extra: &Extra| extra.calls.is_empty() && *extra == Extra::default();
        if self.extra.as_deref().is_some_and(empty) {
            self.extra = None;
        }
    }

    /// When the account was last reset.
    pub(crate) fn reset_at(&self) -> Timestamp {
        self.extra.as_ref().map_or(Timestamp::EPOCH, |extra| extra.reset_at)
    }
}

impl Extra {
    /// Whether it holds nothing but remembered ids, as most do.
    fn has_only_calls(&self) -> bool {
        let Self { frontier, frontier_limit, held_until, caps, undo, calls, refunds, orphans, .. } = self;
        let times = [*frontier, *held_until, self.reset_at, self.reset_expires];
        !calls.is_empty()
            && times == [Timestamp::EPOCH; 4]
            && *frontier_limit == 0
            && (undo.is_none() && caps.is_empty() && refunds.is_empty() && orphans.is_empty())
    }

    /// Remembers that a permit was refunded, unless it is remembered already or there is no room.
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

    /// Takes a grant at `at` from what the vendor says is left.
    pub(crate) fn lower_caps(&mut self, policy: &Policy, cost: &Cost, at: Timestamp) {
        for cap in self.caps.iter_mut().filter(|cap| at < cap.until) {
            let amount = policy.amounts(cost).find(|(limit, _)| limit.identity() == cap.identity);
            cap.left = cap.left.saturating_sub(amount.map_or(0, |(_, amount)| amount));
        }
    }

    /// When the last of its entries expires.
    pub(crate) fn expires_at(&self) -> Timestamp {
        let refunds = self.refunds.iter().map(|refund| refund.expires);
        let orphans = self.orphans.iter().map(|orphan| orphan.expires);
        let caps = self.caps.iter().map(|cap| cap.until);
        let ends = [self.reset_expires, self.held_until, self.calls.last_expires()];
        refunds.chain(orphans).chain(caps).chain(ends).max().unwrap_or(Timestamp::EPOCH)
    }
}

fn is_epoch(time: &Timestamp) -> bool {
    *time == Timestamp::EPOCH
}

/// The result of remembering a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefundMemory {
    First,
    Repeated,
    Full,
}
