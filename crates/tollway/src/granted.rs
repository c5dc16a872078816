//! What a take that does not wait comes to.

use std::fmt;
use std::sync::Arc;

use tollway_core::{GrantNow, Reading, Subject};

use crate::bound::{Ask, Asks, Bound, next_permit};
use crate::{Denied, Permit};

/// What a take that does not wait comes to. Denial is an outcome, not an error.
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

    /// The denial, if it was denied.
    pub fn denied(self) -> Option<Denied> {
        match self {
            Self::Granted(_) => None,
            Self::Denied(denied) => Some(denied),
        }
    }
}

/// A permit that has not been picked up. Most callers only want to know that it was granted, and never make it one:
/// dropping it means, as with a [`Permit`], that the call is done.
#[must_use = "dropping it means that the call is done"]
pub struct Granted<'a>(Kind<'a>);

enum Kind<'a> {
    /// Of the short way: holds no slots and borrows everything, so that it costs nothing to make or drop. It has no id yet:
    /// nothing was kept under one.
    Lent {
        bound: &'a Arc<Bound>,
        subject: &'a str,
        granted: GrantNow,
    },
    Owned(Box<Permit>),
}

impl<'a> Granted<'a> {
    #[inline(always)]
    pub(crate) fn lent(bound: &'a Arc<Bound>, subject: &'a str, granted: GrantNow) -> Self {
        Self(Kind::Lent { bound, subject, granted })
    }

    pub(crate) fn owned(permit: Permit) -> Self {
        Self(Kind::Owned(Box::new(permit)))
    }

    /// Whether it was decided without the store.
    pub fn degraded(&self) -> bool {
        self.owned_permit().is_some_and(Permit::degraded)
    }

    /// Whether a shadow policy would have denied it.
    pub fn would_deny(&self) -> bool {
        self.owned_permit().is_some_and(Permit::would_deny)
    }

    /// What every limit showed after the grant, if the take asked for it.
    pub fn readings(&self) -> &[Reading] {
        self.owned_permit().map_or(&[], Permit::readings)
    }

    /// Of the long way; the short one counts where it decides.
    pub(crate) fn count(&self) {
        if let Some(permit) = self.owned_permit() {
            permit.count();
        }
    }

    fn owned_permit(&self) -> Option<&Permit> {
        match &self.0 {
            Kind::Lent { .. } => None,
            Kind::Owned(permit) => Some(permit),
        }
    }

    /// Picks the permit up: to begin, settle or give back, and to keep while the call runs.
    pub fn permit(self) -> Permit {
        match self.0 {
            Kind::Owned(permit) => *permit,
            Kind::Lent { bound, subject, granted } => {
                // The line was found under this subject, so it is a valid one.
                let subject = Subject::new(subject).unwrap_or_default();
                let booking = granted.booking(next_permit());
                Permit::of_booking(Asks::One(Ask { bound: Arc::clone(bound), subject, cost: None }), booking)
            }
        }
    }
}

impl fmt::Debug for Granted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Lent { granted, .. } => f.debug_tuple("Granted").field(granted).finish(),
            Kind::Owned(permit) => f.debug_tuple("Granted").field(permit).finish(),
        }
    }
}
