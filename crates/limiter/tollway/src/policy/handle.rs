//! A policy looked up once, for callers that take under it repeatedly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{Cost, FastDecision, Policy, Reading};

use crate::policy::usage::{Usage, reset, usage};
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::{BoundPolicy, BoundRef};
use crate::{Limiter, Pending, Take, Tries, Waits};

impl Limiter {
    /// Changes whenever policies are replaced. A caller that caches policies compares it to detect that.
    pub fn generation(&self) -> u64 {
        self.registry().generation()
    }
}

/// A policy, resolved beforehand. It follows reloads.
///
/// A clone shares nothing with the original that a take writes to: give each thread its own.
pub struct PolicyHandle {
    limiter: Limiter,
    bound: Arc<BoundPolicy>,
    /// The newest configuration that is known to have the same policy.
    checked: AtomicU64,
    /// What came by a reload since, if the policy has changed; a handle made after it has no need of this.
    newer: Mutex<Option<Arc<BoundPolicy>>>,
    /// Whether the policy is its caller's own, which no reload changes.
    of_caller: bool,
}

impl PolicyHandle {
    pub(crate) fn new(limiter: Limiter, bound: &BoundPolicy) -> Self {
        let checked = AtomicU64::new(bound.generation);
        Self {
            limiter,
            bound: Arc::new(bound.unshared_copy()),
            checked,
            newer: Mutex::new(None),
            of_caller: false,
        }
    }

    pub(crate) fn bound_by_caller(limiter: Limiter, bound: &BoundPolicy) -> Self {
        Self { of_caller: true, ..Self::new(limiter, bound) }
    }

    pub(crate) fn to_bound(&self) -> Arc<BoundPolicy> {
        self.bound().into_arc()
    }

    /// Like [`Limiter::take`], without looking the policy up.
    pub fn take(&self) -> Take<'_, Waits> {
        Take::new(&self.limiter, Ok(self.bound()))
    }

    /// Like [`Limiter::try_take`], without looking the policy up.
    #[inline(always)]
    pub fn try_take(&self) -> Take<'_, Tries> {
        Take::new(&self.limiter, Ok(self.bound()))
    }

    /// The fast path for callers that keep no permit: takes `cost`, or the policy's default, and reads every limit in
    /// order. None if the fast path does not apply, such as with a store in another process. Nothing was taken then; use
    /// [`try_take`](Self::try_take).
    pub fn decide_and_read(
        &self,
        subject: &str,
        cost: Option<&Cost>,
        on_reading: impl FnMut(Reading),
    ) -> Option<FastDecision> {
        let bound = self.bound();
        bound.decide_and_read(subject, cost.unwrap_or(bound.policy.default_cost()), on_reading)
    }

    /// The policy as it is in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.bound().policy)
    }

    /// Like [`Limiter::usage`].
    pub fn usage(&self) -> Pending<Usage> {
        usage(Ok(BoundCharges::shared(self.bound().into_arc())))
    }

    /// Like [`Limiter::reset`].
    pub fn reset(&self) -> Pending<()> {
        reset(Ok(BoundCharges::shared(self.bound().into_arc())))
    }

    #[inline(always)]
    fn bound(&self) -> BoundRef<'_> {
        if self.checked.load(Ordering::Acquire) == self.limiter.registry().generation() {
            BoundRef::Borrowed(&self.bound)
        } else {
            self.bound_after_reload()
        }
    }

    /// Adopts the policy after a reload. A handle keeps a policy that the reload removed.
    #[cold]
    fn bound_after_reload(&self) -> BoundRef<'_> {
        let mut newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        let registry = self.limiter.registry();
        let generation = registry.generation();
        if self.of_caller {
            self.checked.store(generation, Ordering::Release);
            return BoundRef::Borrowed(&self.bound);
        }
        let known = newer.as_ref().unwrap_or(&self.bound);
        if known.generation != generation {
            let found = registry.find(known.policy.name().as_str());
            let policy = found.map_or_else(|_| Arc::clone(&known.policy), |found| Arc::clone(&found.policy));
            if policy == self.bound.policy {
                *newer = None;
                self.checked.store(generation, Ordering::Release);
                return BoundRef::Borrowed(&self.bound);
            }
            let bound = BoundPolicy::new(Arc::clone(registry.state()), policy, generation);
            *newer = Some(Arc::new(bound));
        }
        BoundRef::Owned(Arc::clone(newer.as_ref().unwrap_or(&self.bound)))
    }
}

impl Clone for PolicyHandle {
    fn clone(&self) -> Self {
        let newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = Self::new(self.limiter.clone(), newer.as_ref().unwrap_or(&self.bound));
        Self { of_caller: self.of_caller, ..handle }
    }
}
