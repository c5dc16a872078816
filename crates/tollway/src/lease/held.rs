//! One subject's lease: what is left of it, and how fast it goes.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::Mutex as Turn;
use tollway_core::{Booking, Cost, Policy, Timestamp};

use super::{Lease, same_meters};

/// Demand is measured over at least this long: two takes in a microsecond are not a million a second.
const MEASURED_MICROS_MIN: u64 = 10_000;

/// A lease is at most so many times larger than the one before it.
const GROWTH_MAX: u64 = 8;

/// A subject's lease, if it has one, and who refills it.
#[derive(Default)]
pub(crate) struct Held {
    lease: Option<Lease>,
    /// What is left of it, by unit.
    left: SmallVec<[u64; 2]>,
    /// How many calls were paid from it.
    calls: u64,
    /// What the last lease was, and what it should have been.
    last_size: u64,
    demand: u64,
    pub(super) turn: Arc<Turn<()>>,
}

/// A lease that has ended with something left.
pub(crate) struct Spent {
    pub(crate) policy: Arc<Policy>,
    pub(crate) booking: Booking,
    pub(crate) reserved: Cost,
    pub(crate) left: SmallVec<[u64; 2]>,
}

impl Held {
    /// Takes the amounts from what is left; answers when the window ends.
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

    /// Units of a window can go back to any lease of it, up to what that has reserved: more is another one's.
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

    /// One second of demand as the last lease has measured it; grown step by step.
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

    /// Ends the lease; answers what is left of it, if anything.
    pub(super) fn end(&mut self) -> Option<Spent> {
        let lease = self.lease.take()?;
        self.demand = self.calls;
        let left = std::mem::take(&mut self.left);
        let spent = Spent { policy: lease.policy, booking: lease.booking, reserved: lease.reserved, left };
        spent.left.iter().any(|left| *left > 0).then_some(spent)
    }

    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.lease.as_ref().is_some_and(|lease| now >= lease.ends)
    }

    /// Whether nothing would be lost if it were forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.lease.is_none() && Arc::strong_count(&self.turn) == 1
    }
}
