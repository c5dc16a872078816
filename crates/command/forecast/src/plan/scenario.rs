//! A policy and the cost of one call, with one limit replaced if wanted.

use tollway_core::{Cost, Limit, Policy};

use crate::plan::error::PlanError;

/// A policy, and the cost of each call.
#[derive(Clone, Debug)]
pub struct Scenario {
    policy: Policy,
    cost: Cost,
}

impl Scenario {
    /// Calls under this policy that cost these amounts of these units, and the policy's default cost otherwise.
    pub fn new(policy: Policy, costs: &[(&str, u64)]) -> Result<Self, PlanError> {
        let mut cost = policy.default_cost().clone();
        for (index, (unit, amount)) in costs.iter().enumerate() {
            if costs.iter().take(index).any(|(earlier, _)| earlier == unit) {
                return Err(PlanError::UnitTwice { unit: (*unit).to_owned() });
            }
            if !policy.units().iter().any(|known| known.as_str() == *unit) {
                let known = policy.units().to_vec();
                return Err(PlanError::UnknownUnit { unit: (*unit).to_owned(), known });
            }
            cost = policy.cost_with(cost, unit, *amount)?;
        }
        if let Some((limit, charge)) =
            policy.amounts(&cost).find(|(limit, charge)| *charge > limit.capacity())
        {
            return Err(PlanError::NeverGranted { limit: Box::new(limit.clone()), charge });
        }
        Ok(Self { policy, cost })
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What one call costs.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }
}

/// The policy with this limit in place of the one with the same name, or of the only one.
pub fn replace_limit(policy: &Policy, limit: Limit) -> Result<Policy, PlanError> {
    let mut limits = policy.limits().to_vec();
    let same_name = limits.iter().position(|known| known.name() == limit.name());
    let index = same_name.or((limits.len() == 1).then_some(0));
    let Some(replaced) = index.and_then(|index| limits.get_mut(index)) else {
        let names = limits.iter().map(|known| known.name().clone()).collect();
        return Err(PlanError::NoSuchLimit { limit: Box::new(limit), names });
    };
    *replaced = limit;
    Ok(policy.with_limits(limits)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(limits: &[&str]) -> Policy {
        Policy::new("plan", limits.iter().copied()).unwrap()
    }

    #[test]
    fn costs_are_checked_against_the_limits() {
        let policy = policy(&["5 requests / minute", "1000 tokens / minute"]);
        let error = |costs: &[(&str, u64)]| Scenario::new(policy.clone(), costs).unwrap_err();
        assert!(matches!(error(&[("token", 1)]), PlanError::UnknownUnit { known, .. } if known.len() == 2));
        assert!(matches!(error(&[("tokens", 1), ("tokens", 2)]), PlanError::UnitTwice { .. }));
        assert!(matches!(error(&[("tokens", 1_001)]), PlanError::NeverGranted { charge: 1_001, .. }));
        assert!(Scenario::new(policy.clone(), &[("tokens", 1_000)]).is_ok());
    }

    #[test]
    fn a_limit_replaces_the_one_of_its_name_or_the_only_one() {
        let one = policy(&["5 requests / minute"]);
        let other: Limit = "3 requests / second".parse().unwrap();
        assert_eq!(replace_limit(&one, other.clone()).unwrap().limits(), std::slice::from_ref(&other));
        let two = policy(&["5 requests / minute", "9 requests / second"]);
        assert_eq!(replace_limit(&two, other.clone()).unwrap().limits()[1], other);
        let hourly = "3 requests / hour".parse().unwrap();
        assert!(matches!(replace_limit(&two, hourly), Err(PlanError::NoSuchLimit { .. })));
    }
}
