//! A policy together with the limiter state it is enforced with.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use tollway_core::{CallId, Charge, Cost, FastCharge, FastDecision, PermitId, Policy, Reading};
use tollway_memory::KeptDenial;

use crate::incident::recent_grants::RecentGrants;
use crate::lease::Leases;
use crate::metrics::PolicyCounts;
use crate::state::LimiterState;
use crate::take::subjects_max::AccountsMade;

/// A policy together with the limiter state it is enforced with.
///
/// Every handle has its own copy, so that threads with a handle each share no reference count.
pub(crate) struct BoundPolicy {
    pub(crate) state: Arc<LimiterState>,
    pub(crate) policy: Arc<Policy>,
    /// The generation of the registry it comes from.
    pub(crate) generation: u64,
    /// Present if the policy leases and the store is not in this process.
    pub(crate) leases: Option<Arc<Leases>>,
    /// Made by the first take, so that a policy without takes costs no counters. Stays empty if the limiter has no metrics.
    counts: OnceLock<Arc<PolicyCounts>>,
    /// The limit that an operator has set to 0, by index: nothing is granted until that changes.
    pub(crate) stopped: Option<usize>,
    /// The recent grants; only for policies of outbound apis.
    pub(crate) recent: Option<Arc<RecentGrants>>,
    /// The accounts made; only for policies with `subjects_max`, in a store that heeds it.
    pub(crate) accounts_made: Option<Arc<AccountsMade>>,
    /// The last denial; only for the copies of handles, since threads that share one would fight for it.
    denial: Option<KeptDenial>,
}

impl BoundPolicy {
    pub(crate) fn new(state: Arc<LimiterState>, policy: Arc<Policy>, generation: u64) -> Self {
        let leases = state.leases_of(&policy);
        let recent = state.recent_grants_of(&policy);
        let accounts_made = state.accounts_made_of(&policy);
        let (counts, stopped, denial) = (OnceLock::new(), None, None);
        Self { state, policy, generation, leases, counts, stopped, recent, accounts_made, denial }
    }

    /// The same, stopped by this limit.
    pub(crate) fn with_stop(self, stopped: Option<usize>) -> Self {
        Self { stopped, ..self }
    }

    /// Binds a policy that the caller made itself; `counts` if it has none of its own.
    pub(crate) fn of_caller(
        state: Arc<LimiterState>,
        policy: Arc<Policy>,
        generation: u64,
        counts: Option<Arc<PolicyCounts>>,
    ) -> Self {
        let counts = counts.map_or_else(OnceLock::new, OnceLock::from);
        let leases = state.leases_of(&policy);
        // Each has its own: callers can make any number of policies.
        let accounts_made = state.bounds_subjects_of(&policy).then(Arc::default);
        let (stopped, recent, denial) = (None, None, None);
        Self { state, policy, generation, leases, counts, stopped, recent, accounts_made, denial }
    }

    /// A copy with its own reference counts.
    pub(crate) fn unshared_copy(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            policy: Arc::new(Policy::clone(&self.policy)),
            generation: self.generation,
            leases: self.leases.clone(),
            counts: self.counts.clone(),
            stopped: self.stopped,
            recent: self.recent.clone(),
            accounts_made: self.accounts_made.clone(),
            denial: Some(KeptDenial::default()),
        }
    }

    /// The fast path: in memory or from a lease, without slots. None if it does not apply; then nothing was taken.
    #[inline(always)]
    pub(crate) fn decide_fast(&self, subject: &str, cost: Option<&Cost>) -> Option<FastDecision> {
        if self.stopped.is_some() {
            return None;
        }
        let policy = &*self.policy;
        let decided = match (&self.state.memory, &self.denial) {
            (Some(memory), Some(denial)) if cost.is_none() => {
                memory.decide_fast_kept(policy, subject, denial)
            }
            (Some(memory), _) => memory.decide_fast(policy, subject, cost),
            (None, _) => self.spend_lease(subject, cost.unwrap_or(policy.default_cost())),
        };
        self.count(decided.as_ref(), subject, cost.unwrap_or(policy.default_cost()));
        decided
    }

    /// The same for a take with an id; only in memory.
    pub(crate) fn decide_fast_once(
        &self,
        subject: &str,
        cost: &Cost,
        call: &CallId,
        permit: PermitId,
    ) -> Option<FastDecision> {
        if self.stopped.is_some() {
            return None;
        }
        let charge = FastCharge { policy: &self.policy, subject, cost };
        let decided = self.state.memory.as_ref()?.decide_fast_once(charge, call, permit);
        self.count(decided.as_ref(), subject, cost);
        decided
    }

    /// The same for a take under this and other policies; only in memory, and only a grant.
    pub(crate) fn grant_fast_together(
        &self,
        subject: &str,
        cost: &Cost,
        others: &[(Charge, Arc<Self>)],
    ) -> Option<FastDecision> {
        if self.stopped.is_some() || others.iter().any(|(_, bound)| bound.stopped.is_some()) {
            return None;
        }
        let first = FastCharge { policy: &self.policy, subject, cost };
        let others_fast = others.iter().map(|(charge, _)| charge.fast());
        let charges: SmallVec<[FastCharge<'_>; 4]> = std::iter::once(first).chain(others_fast).collect();
        let granted = self.state.memory.as_ref()?.grant_fast_together(&charges);
        self.count(granted.as_ref(), subject, cost);
        for (charge, bound) in others {
            bound.count(granted.as_ref(), charge.subject.as_str(), charge.cost());
        }
        granted
    }

    /// The same, with a reading of every limit afterwards; only in memory.
    pub(crate) fn decide_and_read(
        &self,
        subject: &str,
        cost: &Cost,
        on_reading: impl FnMut(Reading),
    ) -> Option<FastDecision> {
        if self.stopped.is_some() {
            return None;
        }
        let decided = self.state.memory.as_ref()?.decide_and_read(&self.policy, subject, cost, on_reading);
        self.count(decided.as_ref(), subject, cost);
        decided
    }

    /// What is counted of its takes, if the limiter has metrics.
    #[inline(always)]
    pub(crate) fn counts(&self) -> Option<&PolicyCounts> {
        let metrics = self.state.metrics.as_ref()?;
        Some(self.counts.get_or_init(|| metrics.of(&self.policy)))
    }

    #[inline(always)]
    fn count(&self, decided: Option<&FastDecision>, subject: &str, cost: &Cost) {
        if let (Some(counts), Some(decided)) = (self.counts(), decided) {
            match decided {
                FastDecision::Granted { .. } => counts.granted(subject, cost),
                FastDecision::Denied { limit, .. } => {
                    counts.denied(*limit, cost);
                    counts.note_denied(subject);
                }
            }
        }
    }

    fn spend_lease(&self, subject: &str, cost: &Cost) -> Option<FastDecision> {
        let leases = self.leases.as_ref()?;
        leases.spend(&self.policy, subject, cost, self.state.expiry_clock().now())
    }
}

/// The bound policy of a take: borrowed from a handle, or owned.
pub(crate) enum BoundRef<'a> {
    Borrowed(&'a Arc<BoundPolicy>),
    Owned(Arc<BoundPolicy>),
}

impl BoundRef<'_> {
    pub(crate) fn into_arc(self) -> Arc<BoundPolicy> {
        match self {
            Self::Borrowed(bound) => Arc::clone(bound),
            Self::Owned(bound) => bound,
        }
    }
}

impl std::ops::Deref for BoundRef<'_> {
    type Target = BoundPolicy;

    fn deref(&self) -> &BoundPolicy {
        match self {
            Self::Borrowed(bound) => bound,
            Self::Owned(bound) => bound,
        }
    }
}

/// A new permit id: 64 random bits per thread and a counter, unique across threads and processes.
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
