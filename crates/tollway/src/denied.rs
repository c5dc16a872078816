//! A denial as the caller sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollway_core::{Denial, DenyNow, Limit, Policy, Reading};

use crate::bound::Bound;

/// A take that was not granted: which limit said no, and when to come back. Nothing was taken.
#[derive(Clone)]
pub struct Denied {
    pub(crate) bound: Arc<Bound>,
    pub(crate) denial: Denial,
    pub(crate) degraded: bool,
}

impl Denied {
    pub(crate) fn now(bound: Arc<Bound>, denied: DenyNow) -> Self {
        Self { bound, denial: denied.in_full(), degraded: false }
    }

    /// The policy that said no.
    pub fn policy(&self) -> &Policy {
        &self.bound.policy
    }

    /// The limit that said no, and would longest.
    pub fn limit(&self) -> Option<&Limit> {
        self.bound.policy.limits().get(self.denial.limit)
    }

    /// How long until the cost fits, if nobody takes or gives back before; counted from the decision.
    pub fn retry_after(&self) -> Duration {
        self.denial.retry_after().into()
    }

    /// What every limit showed, if the take asked for it.
    pub fn readings(&self) -> &[Reading] {
        &self.denial.readings
    }

    /// Whether it was decided without the store.
    pub fn degraded(&self) -> bool {
        self.degraded
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.policy().name();
        match self.limit() {
            Some(limit) => write!(f, "denied by {limit} of policy {name}; free in {:?}", self.retry_after()),
            None => write!(f, "denied by policy {name}; free in {:?}", self.retry_after()),
        }
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denied").field("policy", self.policy().name()).field("denial", &self.denial).finish()
    }
}

impl std::error::Error for Denied {}
