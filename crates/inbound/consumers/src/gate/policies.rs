//! Policies for sets of limits, cached by the limits.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tollway::core::{Limit, Name, Period, Policy, WhenStoreFails};
use tollway::{BindError, Limiter, PolicyHandle};

use crate::{CONSUMERS_POLICY, CallLimits};

/// The most cached policies. Most consumers share a few plans. An evicted policy is rebuilt on demand; the store keeps the
/// meters.
const POLICIES_MAX: usize = 10_000;

pub(super) struct Policies {
    when_store_fails: WhenStoreFails,
    known: RwLock<HashMap<(CallLimits, bool), PolicyHandle>>,
}

impl Policies {
    pub(super) fn new(when_store_fails: WhenStoreFails) -> Self {
        Self { when_store_fails, known: RwLock::default() }
    }

    /// The policy of these limits; `None` if nothing is limited. With `forgets`, a period that no longer has a limit loses
    /// its counter, so only callers with current records may set it.
    pub(super) fn find(
        &self,
        limiter: &Limiter,
        limits: CallLimits,
        forgets: bool,
    ) -> Result<Option<PolicyHandle>, BindError> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = known.get(&(limits, forgets)) {
            return Ok(Some(handle.clone()));
        }
        drop(known);
        let Some(policy) = self.policy(limits) else { return Ok(None) };
        let handle = limiter.bind_counted(policy.with_forgetting(forgets))?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= POLICIES_MAX {
            known.clear();
        }
        known.insert((limits, forgets), handle.clone());
        Ok(Some(handle))
    }

    /// One limit for each period that is limited, the shortest first.
    fn policy(&self, limits: CallLimits) -> Option<Policy> {
        let limits = limits.limited().map(|(period, amount)| limit(period, amount.get()));
        let limits = limits.collect::<Option<Vec<Limit>>>()?;
        let policy = Policy::of_limits(Name::new(CONSUMERS_POLICY).ok()?, limits).ok()?;
        Some(policy.with_when_store_fails(self.when_store_fails))
    }
}

fn limit(period: Period, amount: u64) -> Option<Limit> {
    let limit: Limit = format!("{amount} requests / {period} from first call").parse().ok()?;
    Some(limit.named(Name::new(&format!("per_{period}")).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Amounts;

    /// C1: six limits, each from the first call, named for their periods.
    #[test]
    fn six_amounts_are_six_limits_of_one_policy() {
        let limiter = Limiter::builder().build();
        let policies = Policies::new(WhenStoreFails::Open);
        let limits = CallLimits::sum([&Amounts::new([1, 2, 3, 4, 5, 6]).unwrap()]);
        let policy = policies.find(&limiter, limits, true).unwrap().unwrap().policy();
        let shown: Vec<String> = policy.limits().iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 6);
        assert!(shown[1].starts_with("per_minute: 2 requests / minute from first call"), "{shown:?}");
        assert!(policy.forgets());
        assert_eq!(policy.when_store_fails(), WhenStoreFails::Open);
        assert!(!policies.find(&limiter, limits, false).unwrap().unwrap().policy().forgets());
        assert!(policies.find(&limiter, CallLimits::UNLIMITED, true).unwrap().is_none());
    }
}
