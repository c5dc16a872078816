//! What a policy does while its store does not decide.

use std::sync::Arc;

use tollway_core::{
    Algorithm, Answer, Clock, Decision, Fault, Limit, Operation, Outcome, Party, PermitId, Policy, Store,
    StoreError, Terms, Timestamp, Verb, WhenStoreFails,
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
        // The caller asked for what cannot be: the store is well, and nobody else would know better.
        if error.fault == Fault::Caller {
            return Instead::Failed(error);
        }
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
        match self.apply(asks, Verb::Take(*terms)) {
            Some(Outcome::Decided(decision)) => Instead::Decided(decision),
            _ => Instead::Failed(error),
        }
    }

    /// Frees the slots that a permit holds in the local meters.
    pub(crate) fn done(&self, asks: &[Ask], permit: PermitId) {
        self.apply(asks, Verb::Done(permit));
    }

    fn apply(&self, asks: &[Ask], verb: Verb<'_>) -> Option<Outcome> {
        let policies: Vec<Policy> =
            asks.iter().map(|ask| share_of(&ask.bound.policy)).collect::<Option<_>>()?;
        let parties: Vec<Party<'_>> =
            asks.iter().zip(&policies).map(|(ask, policy)| Party { policy, ..ask.party() }).collect();
        match self.local.apply(&[Operation { parties: &parties, verb }]) {
            Answer::Now(Some(Ok(mut outcomes))) => outcomes.pop(),
            _ => None,
        }
    }
}

/// What was decided in the store's place.
pub(crate) enum Instead {
    Granted(Timestamp),
    Decided(Decision),
    Failed(StoreError),
}

/// The policy with a share of every limit and burst, rounded down, at least 1.
fn share_of(policy: &Policy) -> Option<Policy> {
    let share = |amount: u64| (amount / LOCAL_SHARE).max(1);
    let share_of_limit = |limit: &Limit| {
        let algorithm = match limit.algorithm() {
            Algorithm::Bucket { period, burst } => {
                Algorithm::Bucket { period: *period, burst: share(*burst) }
            }
            other => other.clone(),
        };
        let made = Limit::new(share(limit.amount()), limit.unit().clone(), algorithm).ok()?;
        Some(made.named(limit.name().clone()))
    };
    let limits: Option<Vec<Limit>> = policy.limits().iter().map(share_of_limit).collect();
    policy.with_limits(limits?).ok()
}
