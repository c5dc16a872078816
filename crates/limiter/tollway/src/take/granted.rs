//! The outcome of a take that does not wait.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tollway_core::{Booking, ChargeStatus, Cost, Decision, Subject, TakeOutcome, Timestamp};

use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::{BoundPolicy, BoundRef, next_permit};
use crate::take::builder::Extras;
use crate::{Denied, Permit};

/// The outcome of a take that does not wait. A denial is an outcome, not an error.
#[derive(Debug)]
pub enum Taken<'a> {
    /// The whole cost was taken.
    Granted(Granted<'a>),
    /// Nothing was taken.
    Denied(Denied),
}

impl Taken<'_> {
    /// Whether it was granted.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }

    /// The permit, if it was granted.
    pub fn granted(self) -> Option<Permit> {
        match self {
            Self::Granted(granted) => Some(granted.permit()),
            Self::Denied(_) => None,
        }
    }

    /// The decision in full; none for a grant on the fast path, which does not build one.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Granted(granted) => granted.decision(),
            Self::Denied(denied) => Some(denied.decision()),
        }
    }

    pub(crate) fn with_readings(self, charges: SmallVec<[ChargeStatus; 1]>) -> Self {
        match self {
            Self::Granted(granted) => Self::Granted(Granted::owned(granted.permit().with_readings(charges))),
            Self::Denied(denied) => Self::Denied(denied.with_readings(charges)),
        }
    }

    /// The denial, if it was denied.
    pub fn denied(self) -> Option<Denied> {
        match self {
            Self::Granted(_) => None,
            Self::Denied(denied) => Some(denied),
        }
    }
}

/// A grant. Call [`permit`](Granted::permit) to settle or keep it; dropping it, as with a [`Permit`], means that the call
/// is done.
#[must_use = "dropping it means that the call is done"]
pub struct Granted<'a>(Kind<'a>);

enum Kind<'a> {
    /// Of the fast path: holds no slots and borrows everything, so that it costs nothing to make or drop. It has no id
    /// yet: nothing was kept under one.
    Borrowed {
        bound: &'a Arc<BoundPolicy>,
        subject: &'a str,
        now: Timestamp,
        good_until: Timestamp,
    },
    /// The same for a policy looked up for this take, with a cost, an id or further policies.
    Fast(FastGrant<'a>),
    Owned(Box<Permit>),
}

/// What a permit is made of when it is picked up.
pub(crate) struct FastGrant<'a> {
    pub(crate) bound: BoundRef<'a>,
    pub(crate) subject: &'a str,
    pub(crate) cost: Option<Cost>,
    pub(crate) now: Timestamp,
    pub(crate) good_until: Timestamp,
    pub(crate) extras: Option<Box<Extras>>,
}

impl<'a> Granted<'a> {
    #[inline(always)]
    pub(crate) fn borrowed(
        bound: &'a Arc<BoundPolicy>,
        subject: &'a str,
        now: Timestamp,
        good_until: Timestamp,
    ) -> Self {
        Self(Kind::Borrowed { bound, subject, now, good_until })
    }

    pub(crate) fn fast(grant: FastGrant<'a>) -> Self {
        Self(Kind::Fast(grant))
    }

    pub(crate) fn owned(permit: Permit) -> Self {
        Self(Kind::Owned(Box::new(permit)))
    }

    /// Whether it was decided without the store.
    pub fn degraded(&self) -> bool {
        self.decision().is_some_and(|decision| decision.degraded)
    }

    /// Whether a shadow policy would have denied it.
    pub fn would_deny(&self) -> bool {
        self.decision().is_some_and(|decision| decision.would_deny != 0)
    }

    /// The decision in full; none for a grant on the fast path, which does not build one.
    pub fn decision(&self) -> Option<&Decision> {
        match &self.0 {
            Kind::Borrowed { .. } | Kind::Fast(_) => None,
            Kind::Owned(permit) => Some(permit.decision()),
        }
    }

    /// Of the slow path; the fast path counts where it decides.
    pub(crate) fn count(&self) {
        if let Kind::Owned(permit) = &self.0 {
            permit.count();
        }
    }

    /// Counts the caller as waiting until a place that was booked for it is due.
    pub(crate) fn count_waiting(&self) {
        if let Kind::Owned(permit) = &self.0 {
            permit.count_booked();
        }
    }

    /// Picks the permit up: to begin, settle or give back, and to keep while the call runs.
    pub fn permit(self) -> Permit {
        match self.0 {
            Kind::Owned(permit) => *permit,
            Kind::Borrowed { bound, subject, now, good_until } => {
                let bound = BoundRef::Borrowed(bound);
                FastGrant { bound, subject, cost: None, now, good_until, extras: None }.into_permit()
            }
            Kind::Fast(grant) => grant.into_permit(),
        }
    }
}

impl FastGrant<'_> {
    fn into_permit(self) -> Permit {
        let Self { bound, subject, cost, now, good_until, extras } = self;
        // The account was found under this subject, so it is a valid one.
        let subject = Subject::new(subject).unwrap_or_default();
        let of_id = extras.as_ref().and_then(|extras| extras.permit);
        let permit = of_id.unwrap_or_else(next_permit);
        let booking = Booking { permit, granted_at: now, at: now, good_until };
        let leased = bound.leases.is_some();
        let mut charges = BoundCharges::one(bound.into_arc(), subject, cost);
        let others = extras.into_iter().flat_map(|extras| extras.charges);
        others.for_each(|(charge, bound)| charges.push(charge, bound));
        let decision = Decision::new(now, TakeOutcome::Granted(booking));
        Permit::fast(charges, decision, booking, leased).remembering_refunds(of_id.is_some()).recorded()
    }
}

impl fmt::Debug for Granted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Borrowed { now, good_until, .. } | Kind::Fast(FastGrant { now, good_until, .. }) => {
                f.debug_struct("Granted").field("now", now).field("good_until", good_until).finish()
            }
            Kind::Owned(permit) => f.debug_tuple("Granted").field(permit).finish(),
        }
    }
}
