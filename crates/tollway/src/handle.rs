//! A policy looked up once, for callers who take under it again and again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{Cost, FastDecision, Policy, Reading};

use crate::bound_charges::BoundCharges;
use crate::bound_policy::{BoundPolicy, BoundRef};
use crate::usage::{Usage, reset, usage};
use crate::{Limiter, Pending, Take, Tries, Waits};

impl Limiter {
    /// Changes whenever policies are exchanged: whoever keeps what it has looked up sees by it that it must look again.
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
        Self { limiter, bound: Arc::new(bound.apart()), checked, newer: Mutex::new(None), of_caller: false }
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

    /// The shortest way to a decision and what every limit shows after it, for one who asks very often and keeps no permit:
    /// a take of `cost`, or of the policy's default, and a reading of each limit in its order. Where the store is not in this
    /// process, or anything else makes it longer, nothing has happened; then [`try_take`](Self::try_take) is to be asked.
    pub fn decide_and_read(
        &self,
        subject: &str,
        cost: Option<&Cost>,
        see: impl FnMut(Reading),
    ) -> Option<FastDecision> {
        let bound = self.bound();
        bound.decide_and_read(subject, cost.unwrap_or(bound.policy.default_cost()), see)
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
            BoundRef::Lent(&self.bound)
        } else {
            self.bound_after_reload()
        }
    }

    /// Takes over what a reload has changed. A policy that is gone stays in force for those who hold it.
    #[cold]
    fn bound_after_reload(&self) -> BoundRef<'_> {
        let mut newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        let registry = self.limiter.registry();
        let generation = registry.generation();
        if self.of_caller {
            self.checked.store(generation, Ordering::Release);
            return BoundRef::Lent(&self.bound);
        }
        let known = newer.as_ref().unwrap_or(&self.bound);
        if known.generation != generation {
            let found = registry.find(known.policy.name().as_str());
            let policy = found.map_or_else(|_| Arc::clone(&known.policy), |found| Arc::clone(&found.policy));
            if policy == self.bound.policy {
                *newer = None;
                self.checked.store(generation, Ordering::Release);
                return BoundRef::Lent(&self.bound);
            }
            let bound = BoundPolicy::new(Arc::clone(registry.state()), policy, generation);
            *newer = Some(Arc::new(bound));
        }
        BoundRef::Own(Arc::clone(newer.as_ref().unwrap_or(&self.bound)))
    }
}

impl Clone for PolicyHandle {
    fn clone(&self) -> Self {
        let newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = Self::new(self.limiter.clone(), newer.as_ref().unwrap_or(&self.bound));
        Self { of_caller: self.of_caller, ..handle }
    }
}
