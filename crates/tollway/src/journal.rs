//! What was granted lately under a policy and is still in flight: what one looks at first when a vendor refuses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;
use tollway_core::{Booking, Name, PermitId, Subject, Timestamp};

use crate::bound::{Ask, Asks};

/// How many grants are remembered: those of a second or so at the rates that vendors allow.
const ACQUISITIONS_MAX: usize = 64;

/// A grant, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquisition {
    /// When it was granted, and for when, in the store's time.
    pub granted_at: Timestamp,
    /// For when.
    pub due_at: Timestamp,
    /// Its permit.
    pub permit: PermitId,
    /// Whom it counts for.
    pub subject: Subject,
    /// What it took of each unit.
    pub cost: Vec<(Name, u64)>,
}

/// The last grants of one policy that somebody picked up as permits, and how many of those permits are held.
#[derive(Default)]
pub(crate) struct Journal {
    in_flight: AtomicU64,
    recent: Mutex<VecDeque<Acquisition>>,
}

impl Journal {
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
        if recent.len() >= ACQUISITIONS_MAX {
            recent.pop_front();
        }
        recent.push_back(acquisition);
    }
}

/// A permit is held until this is dropped.
pub(crate) struct Held(SmallVec<[Arc<Journal>; 1]>);

impl Held {
    /// Notes a permit in the journals of its policies.
    pub(crate) fn note(asks: &Asks, booking: &Booking) -> Self {
        let note = |ask: &Ask| {
            let journal = ask.bound.journal.as_ref()?;
            let units = ask.bound.policy.units().iter().cloned();
            journal.note(Acquisition {
                granted_at: booking.granted_at,
                due_at: booking.at,
                permit: booking.permit,
                subject: ask.subject.clone(),
                cost: units.zip(ask.cost().amounts().iter().copied()).collect(),
            });
            Some(Arc::clone(journal))
        };
        Self(asks.iter().filter_map(note).collect())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for journal in &self.0 {
            journal.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
