//! What a policy does while its store does not decide.

use std::sync::Arc;

use tollway_core::{
    Clock, Decision, Limit, Operation, Outcome, Party, Policy, Store, StoreError, Terms, Timestamp, Verb,
    WhenStoreFails,
};
use tollway_memory::MemoryStore;

use crate::bound::Ask;

/// The part of every limit that a process keeps to by itself: a tenth.
const LOCAL_SHARE: u64 = 10;

/// How many lines the local meters may have.
const LOCAL_LINES: usize = 10_000;

/// Local meters, for policies that go on with a share of their limits.
pub(crate) struct Fallback {
    local: MemoryStore,
}

impl Fallback {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { local: MemoryStore::with_capacity(LOCAL_LINES, clock) }
    }

    /// Decides in the store's place, by the strictest policy of the take.
    pub(crate) fn decide(
        &self,
        asks: &[Ask],
        terms: &Terms<'_>,
        error: StoreError,
        now: Timestamp,
    ) -> Instead {
        let enforced = asks.iter().filter(|ask| !ask.bound.policy.shadow());
        let mode =
            enforced.map(|ask| ask.bound.policy.when_store_fails()).max().unwrap_or(WhenStoreFails::Open);
        tracing::warn!(%error, ?mode, "the store did not decide");
        match mode {
            WhenStoreFails::Open => Instead::Granted(now),
            WhenStoreFails::Closed => Instead::Failed(error),
            WhenStoreFails::Local => self.decide_locally(asks, terms, error),
        }
    }

    fn decide_locally(&self, asks: &[Ask], terms: &Terms<'_>, error: StoreError) -> Instead {
        let policies: Option<Vec<Policy>> = asks.iter().map(|ask| share_of(&ask.bound.policy)).collect();
        let Some(policies) = policies else { return Instead::Failed(error) };
        let parties: Vec<Party<'_>> =
            asks.iter().zip(&policies).map(|(ask, policy)| Party { policy, ..ask.party() }).collect();
        let operation = Operation { parties: &parties, verb: Verb::Take(*terms) };
        let tollway_core::Answer::Now(Some(Ok(outcomes))) = self.local.apply(&[operation]) else {
            return Instead::Failed(error);
        };
        match outcomes.into_iter().next() {
            Some(Outcome::Decided(decision)) => Instead::Decided(decision),
            _ => Instead::Failed(error),
        }
    }
}

/// What was decided in the store's place.
pub(crate) enum Instead {
    Granted(Timestamp),
    Decided(Decision),
    Failed(StoreError),
}

/// The policy with a share of every limit, rounded down, at least 1.
fn share_of(policy: &Policy) -> Option<Policy> {
    let share = |limit: &Limit| limit.with_amount((limit.amount() / LOCAL_SHARE).max(1)).ok();
    policy.with_limits(policy.limits().iter().map(share).collect::<Option<Vec<_>>>()?).ok()
}
