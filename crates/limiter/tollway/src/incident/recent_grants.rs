//! The recent grants of a policy and how many are in flight: the evidence kept for incidents.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;
use tollway_core::{Booking, Charge, Name, PermitId, Subject, Timestamp};

use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::BoundPolicy;

/// How many grants are remembered: those of a second or so at the rates that vendors allow.
const RECENT_GRANTS_MAX: usize = 64;

/// A grant, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// When it was granted, in the store's time.
    pub granted_at: Timestamp,
    /// When the call may begin, in the store's time.
    pub due_at: Timestamp,
    /// Its permit.
    pub permit: PermitId,
    /// The subject.
    pub subject: Subject,
    /// What it took of each unit.
    pub cost: Vec<(Name, u64)>,
}

/// The last grants of one policy that became permits, and how many of those permits are held.
#[derive(Default)]
pub(crate) struct RecentGrants {
    in_flight: AtomicU64,
    recent: Mutex<VecDeque<Acquisition>>,
}

impl RecentGrants {
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The oldest first.
    pub(crate) fn recent(&self) -> Vec<Acquisition> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn note(&self, acquisition: Acquisition) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= RECENT_GRANTS_MAX {
            recent.pop_front();
        }
        recent.push_back(acquisition);
    }
}

/// Counts a permit as in flight until it is dropped.
pub(crate) struct HeldPermit(SmallVec<[Arc<RecentGrants>; 1]>);

impl HeldPermit {
    /// Notes a permit with those of its policies that are apis'; none if it has none.
    #[inline]
    pub(crate) fn note(charges: &BoundCharges, booking: &Booking) -> Option<Self> {
        if charges.iter().all(|(_, bound)| bound.recent.is_none()) {
            return None;
        }
        Some(Self(charges.iter().filter_map(|(charge, bound)| note(charge, bound, booking)).collect()))
    }
}

fn note(charge: &Charge, bound: &BoundPolicy, booking: &Booking) -> Option<Arc<RecentGrants>> {
    let recent = bound.recent.as_ref()?;
    let units = charge.policy.units().iter().cloned();
    recent.note(Acquisition {
        granted_at: booking.granted_at,
        due_at: booking.at,
        permit: booking.permit,
        subject: charge.subject.clone(),
        cost: units.zip(charge.cost().amounts().iter().copied()).collect(),
    });
    Some(Arc::clone(recent))
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        for recent in &self.0 {
            recent.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
