//! Prepares a policy for a trial.

use tollway_core::{Limit, Policy, PolicyError, Span};

use crate::simulate::error::SimulateError;

/// A trial policy, with a title for reports.
#[derive(Clone, Debug)]
pub struct TrialPolicy {
    /// The title.
    pub title: String,
    /// The policy as tried.
    pub policy: Policy,
    /// The first limit that is left out.
    pub left_out: Option<Limit>,
}

impl TrialPolicy {
    /// The policy, enforced even if it is a shadow, and without concurrency limits: a log does not say how long calls took.
    pub fn new(title: impl Into<String>, policy: &Policy) -> Result<Self, SimulateError> {
        let policy = policy.clone().with_shadow(false);
        let is_slots = |limit: &Limit| limit.has_slots();
        let (slots, limits): (Vec<Limit>, Vec<Limit>) = policy.limits().iter().cloned().partition(is_slots);
        let title = title.into();
        match slots.into_iter().next() {
            None => Ok(Self { title, policy, left_out: None }),
            Some(limit) if limits.is_empty() => Err(SimulateError::OnlySlots { limit: Box::new(limit) }),
            Some(limit) => Ok(Self { title, policy: policy.with_limits(limits)?, left_out: Some(limit) }),
        }
    }

    /// Checks that calls can wait this long: a sliding limit cannot be booked ahead, so a replay cannot know when a wait
    /// ends.
    pub fn check_wait(&self, max_wait: Span) -> Result<(), SimulateError> {
        let is_sliding = |limit: &&Limit| limit.slides();
        match self.policy.limits().iter().find(is_sliding) {
            Some(limit) if max_wait > Span::ZERO => {
                Err(SimulateError::WaitUnderSliding { limit: Box::new(limit.clone()) })
            }
            _ => Ok(()),
        }
    }
}

/// The policy with this limit in place of the one of its name. If it has none, this limit is the whole policy.
pub fn replace_limit(policy: &Policy, limit: &Limit) -> Result<Policy, PolicyError> {
    let mut limits = policy.limits().to_vec();
    match limits.iter_mut().find(|known| known.name() == limit.name()) {
        Some(known) => *known = limit.clone(),
        None => limits = vec![limit.clone()],
    }
    policy.with_limits(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(limits: &[&str]) -> Policy {
        Policy::new("api", limits.iter().copied()).unwrap()
    }

    #[test]
    fn slots_are_left_out_and_cannot_be_all() {
        let trial = TrialPolicy::new("api", &policy(&["3 requests / minute", "2 concurrent"])).unwrap();
        assert_eq!(trial.policy.limits().len(), 1);
        assert_eq!(trial.left_out.map(|limit| limit.to_string()).as_deref(), Some("2 concurrent"));
        let only = TrialPolicy::new("api", &policy(&["2 concurrent"]));
        assert!(matches!(only, Err(SimulateError::OnlySlots { .. })));
    }

    #[test]
    fn calls_do_not_wait_under_a_sliding_limit() {
        let trial = TrialPolicy::new("api", &policy(&["3 requests / minute sliding"])).unwrap();
        assert!(trial.check_wait(Span::ZERO).is_ok());
        let waits = trial.check_wait(Span::from_secs(1));
        assert!(matches!(waits, Err(SimulateError::WaitUnderSliding { .. })));
    }
}
