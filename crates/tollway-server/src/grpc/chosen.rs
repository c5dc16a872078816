//! Limits that a proxy brings with its descriptors: made once, and found again by what was chosen.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tollway::Policy;

use super::message::{RateLimitOverride, Unit};
use super::status::{Code, Failure};
use crate::bounds::ENVOY_CHOSEN_MAX;
use crate::known::Known;
use crate::server::Shared;

/// The limits that a worker was asked for. Their meters are the store's, so nothing is lost with one that is forgotten.
#[derive(Default)]
pub(super) struct ChosenLimits(RefCell<HashMap<RateLimitOverride, Rc<Known>>>);

impl ChosenLimits {
    /// The policy of a limit that is above 0.
    pub(super) fn find(&self, shared: &Shared, limit: RateLimitOverride) -> Result<Rc<Known>, Failure> {
        let (name, per) = words(limit.unit())?;
        let headers = shared.rules().headers_of(name);
        let mut known = self.0.borrow_mut();
        // A reload may have changed the headers.
        if let Some(found) = known.get(&limit).filter(|found| found.headers == headers) {
            return Ok(Rc::clone(found));
        }
        // Routes choose a few limits and keep to them. If somebody does not, whoever does is found again soon.
        if known.len() >= ENVOY_CHOSEN_MAX {
            known.clear();
        }
        let text = format!("{} requests / {per}", limit.requests_per_unit);
        let policy = Policy::new(name, [text.as_str()]);
        let policy = policy.map_err(|error| Failure::new(Code::InvalidArgument, error.to_string()))?;
        let handle = shared.limiter.bind(policy)?;
        let found = Rc::new(Known { policy: handle.policy(), handle, headers });
        known.insert(limit, Rc::clone(&found));
        Ok(found)
    }
}

/// The policy's name, and its period. One name for all amounts of a unit: what is used stays used when only that changes.
fn words(unit: Unit) -> Result<(&'static str, &'static str), Failure> {
    Ok(match unit {
        Unit::Second => ("envoy.per_second", "second"),
        Unit::Minute => ("envoy.per_minute", "minute"),
        Unit::Hour => ("envoy.per_hour", "hour"),
        Unit::Day => ("envoy.per_day", "day"),
        Unit::Week => ("envoy.per_week", "week"),
        Unit::Month => ("envoy.per_month", "month"),
        // 365 days; longer windows of the calendar than a month there are none.
        Unit::Year => ("envoy.per_year", "8760 hours"),
        Unit::Unknown => {
            return Err(Failure::new(
                Code::InvalidArgument,
                "the limit of a descriptor has no unit that is known",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_a_limit() {
        for unit in 1..=7 {
            let limit = RateLimitOverride { requests_per_unit: 3, unit };
            let (name, per) = words(limit.unit()).ok().unwrap();
            Policy::new(name, [format!("3 requests / {per}").as_str()]).unwrap();
        }
        assert!(words(Unit::Unknown).is_err());
    }
}
