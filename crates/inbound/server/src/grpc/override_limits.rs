//! A cache of limits that a proxy sends with its descriptors, in place of a policy's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tollway::Policy;

use super::message::{RateLimitOverride, Unit};
use super::service::{Failure, StatusCode};
use crate::bounds::ENVOY_CHOSEN_MAX;
use crate::known_policies::KnownPolicy;
use crate::server::ServerState;

/// A worker's cache of policies for such limits. The store keeps their usage, so evicting one loses nothing.
#[derive(Default)]
pub(super) struct OverrideLimits(RefCell<HashMap<RateLimitOverride, Rc<KnownPolicy>>>);

impl OverrideLimits {
    /// The policy of a limit that is above 0.
    pub(super) fn find(
        &self,
        state: &ServerState,
        limit: RateLimitOverride,
    ) -> Result<Rc<KnownPolicy>, Failure> {
        let (name, per) = words(limit.unit())?;
        let headers = state.rules().headers_of(name);
        let mut known = self.0.borrow_mut();
        // A reload may have changed the headers.
        if let Some(found) = known.get(&limit).filter(|found| found.headers == headers) {
            return Ok(Rc::clone(found));
        }
        // Routes use a few limits; after a flood of others those are soon cached again.
        if known.len() >= ENVOY_CHOSEN_MAX {
            known.clear();
        }
        let text = format!("{} requests / {per}", limit.requests_per_unit);
        let policy = Policy::new(name, [text.as_str()]);
        let policy = policy.map_err(|error| Failure::new(StatusCode::InvalidArgument, error.to_string()))?;
        let handle = state.limiter.bind(policy)?;
        let found = Rc::new(KnownPolicy { policy: handle.policy(), handle, headers });
        known.insert(limit, Rc::clone(&found));
        Ok(found)
    }
}

/// The policy's name and its period. One name for all amounts of a unit, so that usage survives a changed amount.
fn words(unit: Unit) -> Result<(&'static str, &'static str), Failure> {
    Ok(match unit {
        Unit::Second => ("envoy.per_second", "second"),
        Unit::Minute => ("envoy.per_minute", "minute"),
        Unit::Hour => ("envoy.per_hour", "hour"),
        Unit::Day => ("envoy.per_day", "day"),
        Unit::Week => ("envoy.per_week", "week"),
        Unit::Month => ("envoy.per_month", "month"),
        // 365 days: there is no calendar window longer than a month.
        Unit::Year => ("envoy.per_year", "8760 hours"),
        Unit::Unknown => {
            return Err(Failure::new(
                StatusCode::InvalidArgument,
                "the limit of a descriptor has an unknown unit",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_envoy_unit_is_a_valid_limit() {
        for unit in 1..=7 {
            let limit = RateLimitOverride { requests_per_unit: 3, unit };
            let (name, per) = words(limit.unit()).ok().unwrap();
            Policy::new(name, [format!("3 requests / {per}").as_str()]).unwrap();
        }
        assert!(words(Unit::Unknown).is_err());
    }
}
