//! How much of a limit this process may grant without the store, among all limiters that share the store.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use tollway_core::{Limit, LocalShare, Policy, WhenStoreFails};

/// How many limiters share the store, as it last said. It cannot be asked while it is away.
#[derive(Debug, Default)]
pub(crate) struct Limiters(AtomicU32);

impl Limiters {
    /// `None`: a store that does not count them.
    pub(crate) fn note(&self, limiters: Option<NonZeroU32>) {
        self.0.store(limiters.map_or(0, NonZeroU32::get), Ordering::Relaxed);
    }

    /// None until the store has said it.
    pub(crate) fn known(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Relaxed))
    }
}

/// The share of one policy among so many limiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    share: LocalShare,
    limiters: Option<NonZeroU32>,
}

impl Share {
    /// Of the whole limit, and of what the store said is left of it.
    pub(crate) fn of_policy(policy: &Policy, limiters: Option<NonZeroU32>) -> Self {
        Self { share: policy.local_share(), limiters }
    }

    /// Of what the store said is left: all of it under a policy that is open then.
    pub(crate) fn of_known(policy: &Policy, limiters: Option<NonZeroU32>) -> Self {
        let share = Self::of_policy(policy, limiters);
        let all = || LocalShare::new(1, 1).unwrap_or_default();
        if policy.when_store_fails() == WhenStoreFails::Open { Self { share: all(), ..share } } else { share }
    }

    pub(crate) fn of(self, amount: u64) -> u64 {
        self.share.among(self.limiters, amount)
    }

    /// Whether each answer of the store gives a new share, because all shares together keep to what it says is left. A fixed
    /// share does not: a window has it once.
    pub(crate) fn is_renewed_by_answers(self) -> bool {
        self.share.is_auto() && self.limiters.is_some()
    }
}

/// The policy with the share of every limit and burst, at least 1. A share of 0 is denied before; see `known_usage.rs`.
pub(crate) fn local_policy(policy: &Policy, limiters: Option<NonZeroU32>) -> Option<Policy> {
    let share = Share::of_policy(policy, limiters);
    let of = |amount: u64| share.of(amount).max(1);
    let share_of_limit = |limit: &Limit| limit.with_amounts(of(limit.amount()), limit.burst().map(of)).ok();
    let limits: Option<Vec<Limit>> = policy.limits().iter().map(share_of_limit).collect();
    policy.with_limits(limits?).ok()
}
