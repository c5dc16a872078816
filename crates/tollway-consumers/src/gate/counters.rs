//! What was counted for a consumer: looked at, and made new (C9).

use tollway::core::{Period, Span};
use tollway::{LimitUsage, TakeError};

use super::Gate;
use crate::{Amounts, CallLimits, ConsumerId};

/// What was counted in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// In which.
    pub period: Period,
    /// How many calls.
    pub calls_made: u64,
    /// How long until they are forgotten.
    pub resets_in: Span,
}

impl Gate {
    /// What was counted for a consumer under its limits of now, the shortest period first; a period that nothing was counted
    /// in has no counter.
    pub async fn counters(
        &self,
        consumer: &ConsumerId,
        limits: CallLimits,
    ) -> Result<Vec<Counter>, TakeError> {
        let Ok(Some(handle)) = self.policies.find(&self.limiter, limits, false) else {
            return Ok(Vec::new());
        };
        let usage = handle.usage().subject(consumer.as_str()).await?;
        let counter = |(period, usage): (Period, &LimitUsage)| {
            let (calls_made, resets_in) = (usage.used, usage.resets_in);
            (calls_made > 0).then_some(Counter { period, calls_made, resets_in })
        };
        let periods = limits.limited().map(|(period, _)| period);
        Ok(periods.zip(&usage.limits).filter_map(counter).collect())
    }

    /// Makes all counters of a consumer new.
    pub async fn reset(&self, consumer: &ConsumerId) -> Result<(), TakeError> {
        let Ok(Some(handle)) = self.policies.find(&self.limiter, every_period(), true) else { return Ok(()) };
        handle.reset().subject(consumer.as_str()).await
    }
}

/// Limits of all periods: to reset under them is to reset every counter there may be, whatever limits it was made by.
pub(super) fn every_period() -> CallLimits {
    Amounts::new([1; 6]).map_or(CallLimits::UNLIMITED, |ones| CallLimits::sum([&ones]))
}
