//! A policy with what it takes to enforce it.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tollway_core::{Cost, FastDecision, PermitId, Policy, Reading};

use crate::lease::Leases;
use crate::metrics::PolicyCounts;
use crate::recent_grants::RecentGrants;
use crate::state::LimiterState;

/// A policy with what it takes to enforce it.
///
/// Every handle has a copy of its own, so that threads that each hold a handle write to no reference count in common.
pub(crate) struct BoundPolicy {
    pub(crate) state: Arc<LimiterState>,
    pub(crate) policy: Arc<Policy>,
    /// Which configuration it comes from.
    pub(crate) generation: u64,
    /// Units taken ahead, if the policy leases and the store is not in this process.
    pub(crate) leases: Option<Arc<Leases>>,
    /// Where its decisions are counted, if they are.
    pub(crate) counts: Option<Arc<PolicyCounts>>,
    /// What was granted lately; kept only for policies of apis.
    pub(crate) recent: Option<Arc<RecentGrants>>,
}

impl BoundPolicy {
    pub(crate) fn new(state: Arc<LimiterState>, policy: Arc<Policy>, generation: u64) -> Self {
        let leases = state.leases_of(&policy);
        let counts = state.metrics.as_ref().map(|metrics| metrics.of(&policy));
        let recent = state.recent_grants_of(&policy);
        Self { state, policy, generation, leases, counts, recent }
    }

    /// One whose policy is the caller's own.
    pub(crate) fn of_caller(
        state: Arc<LimiterState>,
        policy: Arc<Policy>,
        generation: u64,
        counts: Option<Arc<PolicyCounts>>,
    ) -> Self {
        let leases = state.leases_of(&policy);
        Self { state, policy, generation, leases, counts, recent: None }
    }

    /// The same policy, with reference counts of its own.
    pub(crate) fn apart(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            policy: Arc::new(Policy::clone(&self.policy)),
            generation: self.generation,
            leases: self.leases.clone(),
            counts: self.counts.clone(),
            recent: self.recent.clone(),
        }
    }

    /// The fast path: in memory or from a lease, no slots to hold. If it does not apply, nothing has happened.
    #[inline(always)]
    pub(crate) fn decide_fast(&self, subject: &str, cost: Option<&Cost>) -> Option<FastDecision> {
        let policy = &*self.policy;
        let cost = cost.unwrap_or(policy.default_cost());
        let decided = match &self.state.memory {
            Some(memory) => memory.decide_fast(policy, subject, cost),
            None => self.spend_lease(subject, cost),
        };
        self.count(decided.as_ref(), subject, cost);
        decided
    }

    /// The same with a reading of every limit afterwards, where the store can tell at once: in memory.
    pub(crate) fn decide_and_read(
        &self,
        subject: &str,
        cost: &Cost,
        see: impl FnMut(Reading),
    ) -> Option<FastDecision> {
        let decided = self.state.memory.as_ref()?.decide_and_read(&self.policy, subject, cost, see);
        self.count(decided.as_ref(), subject, cost);
        decided
    }

    #[inline(always)]
    fn count(&self, decided: Option<&FastDecision>, subject: &str, cost: &Cost) {
        if let (Some(counts), Some(decided)) = (&self.counts, decided) {
            match decided {
                FastDecision::Granted { .. } => counts.granted(subject, cost),
                FastDecision::Denied { limit, .. } => counts.denied(*limit),
            }
        }
    }

    fn spend_lease(&self, subject: &str, cost: &Cost) -> Option<FastDecision> {
        let leases = self.leases.as_ref()?;
        leases.spend(&self.policy, subject, cost, self.state.clock.now())
    }
}

/// A policy that a take names: lent by a handle, or its own.
pub(crate) enum BoundRef<'a> {
    Lent(&'a Arc<BoundPolicy>),
    Own(Arc<BoundPolicy>),
}

impl BoundRef<'_> {
    pub(crate) fn into_arc(self) -> Arc<BoundPolicy> {
        match self {
            Self::Lent(bound) => Arc::clone(bound),
            Self::Own(bound) => bound,
        }
    }
}

impl std::ops::Deref for BoundRef<'_> {
    type Target = BoundPolicy;

    fn deref(&self) -> &BoundPolicy {
        match self {
            Self::Lent(bound) => bound,
            Self::Own(bound) => bound,
        }
    }
}

/// Draws a permit id: 64 random bits of this thread and a count, so that no two threads or processes draw the same.
#[inline]
pub(crate) fn next_permit() -> PermitId {
    thread_local! {
        // The standard library's hasher is seeded by the operating system.
        static IDS: (u64, Cell<u64>) = (RandomState::new().hash_one(0), Cell::new(0));
    }
    IDS.with(|(random, next)| {
        let count = next.get();
        next.set(count.wrapping_add(1));
        PermitId((u128::from(*random) << 64) | u128::from(count))
    })
}
