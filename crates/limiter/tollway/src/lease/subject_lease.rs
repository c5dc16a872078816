//! The lease of one subject: its unspent units and the demand it measures.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::Mutex as AsyncMutex;
use tollway_core::{Booking, Cost, Policy, Timestamp};

use super::{Lease, same_meters};

/// The shortest time over which demand is measured; two takes within a microsecond are not a rate of a million.
const MEASURED_MICROS_MIN: u64 = 10_000;

/// The most a lease may grow relative to the one before.
const GROWTH_MAX: u64 = 8;

/// The lease of one subject, if it has one, and the lock for refilling it.
#[derive(Default)]
pub(crate) struct SubjectLease {
    lease: Option<Lease>,
    /// Unspent amounts, by unit.
    left: SmallVec<[u64; 2]>,
    /// How many calls it has paid for.
    calls: u64,
    /// How many calls the last lease could pay for.
    last_size: u64,
    /// How many calls the last lease did pay for.
    demand: u64,
    pub(super) refill_lock: Arc<AsyncMutex<()>>,
}

/// An ended lease with unspent units.
pub(crate) struct EndedLease {
    pub(crate) policy: Arc<Policy>,
    pub(crate) booking: Booking,
    pub(crate) reserved: Cost,
    pub(crate) left: SmallVec<[u64; 2]>,
}

impl SubjectLease {
    /// Spends the amounts if enough is left. Returns when the window ends.
    #[inline]
    pub(super) fn spend(
        &mut self,
        policy: &Arc<Policy>,
        amounts: &[u64],
        now: Timestamp,
    ) -> Option<Timestamp> {
        let lease =
            self.lease.as_ref().filter(|lease| now < lease.ends && same_meters(&lease.policy, policy))?;
        let enough = self.left.len() == amounts.len()
            && amounts.iter().zip(&self.left).all(|(cost, left)| cost <= left);
        if !enough {
            return None;
        }
        self.left.iter_mut().zip(amounts).for_each(|(left, cost)| *left -= cost);
        self.calls += 1;
        Some(lease.window_ends)
    }

    /// Returns units to this lease if it belongs to their window, but never beyond what it reserved.
    pub(super) fn credit(&mut self, policy: &Arc<Policy>, amounts: &[u64], window_ends: Timestamp) -> bool {
        let mine = |lease: &&Lease| lease.window_ends == window_ends && same_meters(&lease.policy, policy);
        let Some(lease) = self.lease.as_ref().filter(mine) else { return false };
        let reserved = lease.reserved.amounts();
        let fits = amounts.len() == self.left.len()
            && self.left.iter().zip(amounts).zip(reserved).all(|((left, more), most)| left + more <= *most);
        if fits {
            self.left.iter_mut().zip(amounts).for_each(|(left, more)| *left += more);
        }
        fits
    }

    pub(super) fn begin(&mut self, lease: Lease) {
        self.left = SmallVec::from_slice(lease.reserved.amounts());
        (self.calls, self.last_size) = (0, lease.size);
        self.lease = Some(lease);
    }

    /// One second of demand as the last lease measured it; grows by at most `GROWTH_MAX`.
    pub(super) fn next_size(&self, now: Timestamp) -> u64 {
        let demand = match &self.lease {
            None => self.demand,
            Some(lease) => {
                let elapsed = now.since(lease.began).as_micros().max(MEASURED_MICROS_MIN);
                self.calls.saturating_mul(1_000_000) / elapsed
            }
        };
        demand.clamp(1, self.last_size.max(1).saturating_mul(GROWTH_MAX))
    }

    /// Ends the lease. Returns it if it has unspent units.
    pub(super) fn end(&mut self) -> Option<EndedLease> {
        let lease = self.lease.take()?;
        self.demand = self.calls;
        let left = std::mem::take(&mut self.left);
        let ended =
            EndedLease { policy: lease.policy, booking: lease.booking, reserved: lease.reserved, left };
        ended.left.iter().any(|left| *left > 0).then_some(ended)
    }

    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.lease.as_ref().is_some_and(|lease| now >= lease.ends)
    }

    /// Whether it has no lease and no refill is in progress, so that it can be dropped.
    pub(super) fn is_idle(&self) -> bool {
        self.lease.is_none() && Arc::strong_count(&self.refill_lock) == 1
    }
}
