//! A cache of the limits that callers choose with each command.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tollway::core::bounds::{AMOUNT_MAX, PERIOD_MAX};
use tollway::core::{Algorithm, REQUESTS};
use tollway::{Limit, Limiter, Name, Policy, PolicyHandle, Span};

use crate::bounds::RESP_CHOSEN_MAX;

/// The name of these policies, followed by the period in seconds. All bursts and counts share one policy, so that a key's
/// usage survives a change of them. Each period has its own: an account keeps the meters of only a few removed limits
/// (decision 9), so a caller could otherwise evict the one that denies it.
const POLICY: &str = "cl.throttle";

/// The longest period, in seconds.
pub(super) const PERIOD_SECONDS_MAX: u64 = PERIOD_MAX.as_micros() / 1_000_000;

/// The largest burst and count.
pub(super) const COUNT_MAX: u64 = AMOUNT_MAX;

/// The limit that a caller chooses: a bucket of this size that refills by `count` every `period_seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Choice {
    pub(super) size: u64,
    pub(super) count: u64,
    pub(super) period_seconds: u64,
}

/// A policy for a caller's choice.
pub(super) struct Chosen {
    pub(super) handle: PolicyHandle,
    pub(super) size: u64,
    /// How long the empty bucket takes to fill.
    pub(super) refill: Span,
}

/// A worker's cache of these limits. The store keeps their usage, so evicting one loses nothing.
#[derive(Default)]
pub(super) struct ChosenLimits(RefCell<HashMap<Choice, Rc<Chosen>, foldhash::fast::RandomState>>);

impl ChosenLimits {
    /// The limit of this choice, or why it is invalid.
    pub(super) fn find(&self, limiter: &Limiter, choice: Choice) -> Result<Rc<Chosen>, String> {
        let mut known = self.0.borrow_mut();
        if let Some(chosen) = known.get(&choice) {
            return Ok(Rc::clone(chosen));
        }
        // Callers use a few limits; after a flood of others those are soon cached again.
        if known.len() >= RESP_CHOSEN_MAX {
            known.clear();
        }
        let chosen = Rc::new(Chosen::new(limiter, choice)?);
        known.insert(choice, Rc::clone(&chosen));
        Ok(chosen)
    }
}

impl Chosen {
    fn new(limiter: &Limiter, choice: Choice) -> Result<Self, String> {
        let Choice { size, count, period_seconds } = choice;
        let name = |text: &str| Name::new(text).map_err(|error| error.to_string());
        let bucket = Algorithm::Bucket { period: Span::from_secs(period_seconds), burst: size };
        let limit = Limit::new(count, name(REQUESTS)?, bucket).map_err(|error| error.to_string())?;
        let refill = limit.refill_time();
        let name = name(&format!("{POLICY}.{period_seconds}"))?;
        let policy = Policy::of_limits(name, vec![limit]).map_err(|error| error.to_string())?;
        let handle = limiter.bind(policy).map_err(|error| error.to_string())?;
        Ok(Self { handle, size, refill })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cache is bounded, and evicting a limit keeps its usage.
    #[test]
    fn chosen_limits_cache_is_bounded_and_keeps_usage() {
        let limiter = Limiter::builder().build();
        let limits = ChosenLimits::default();
        let choice = |size| Choice { size, count: 1, period_seconds: 60 };
        let take = |size| {
            let chosen = limits.find(&limiter, choice(size)).unwrap();
            chosen.handle.try_take().subject("anna").now().unwrap().is_granted()
        };
        assert!(take(1));
        let more = u64::try_from(RESP_CHOSEN_MAX).unwrap() + 10;
        for size in 2..more {
            limits.find(&limiter, choice(size)).unwrap();
            assert!(limits.0.borrow().len() <= RESP_CHOSEN_MAX);
        }
        assert!(!take(1));
    }

    /// A caller that tries many periods cannot evict the one that denies it from the account.
    #[test]
    fn many_chosen_periods_do_not_evict_usage() {
        let limiter = Limiter::builder().build();
        let limits = ChosenLimits::default();
        let take = |period_seconds| {
            let chosen = limits.find(&limiter, Choice { size: 1, count: 1, period_seconds }).unwrap();
            chosen.handle.try_take().subject("anna").now().unwrap().is_granted()
        };
        assert!(take(60));
        assert!((1_000..1_040).all(take));
        assert!(!take(60));
    }
}
