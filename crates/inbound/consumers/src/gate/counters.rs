//! Reads and resets the usage of a consumer.

use tollway::core::{Period, Span, Timestamp};
use tollway::{LimitUsage, TakeError};

use super::Gate;
use crate::{Amounts, CallLimits, ConsumerId};

/// The usage in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The period.
    pub period: Period,
    /// How many calls were made.
    pub calls_made: u64,
    /// How long until the counter resets.
    pub resets_in: Span,
    /// When it resets, in the store's time.
    pub resets_at: Timestamp,
}

impl Gate {
    /// The usage of a consumer under its current limits, the shortest period first. A period without usage has no counter.
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
            let &LimitUsage { used: calls_made, resets_in, resets_at, .. } = usage;
            (calls_made > 0).then_some(Counter { period, calls_made, resets_in, resets_at })
        };
        let periods = limits.limited().map(|(period, _)| period);
        Ok(periods.zip(&usage.limits).filter_map(counter).collect())
    }

    /// Resets all counters of a consumer.
    pub async fn reset(&self, consumer: &ConsumerId) -> Result<(), TakeError> {
        let Ok(Some(handle)) = self.policies.find(&self.limiter, every_period(), true) else { return Ok(()) };
        handle.reset().subject(consumer.as_str()).await
    }
}

/// Limits in all periods. A reset under them resets every possible counter, whatever limits created it.
pub(super) fn every_period() -> CallLimits {
    Amounts::new([1; 6]).map_or(CallLimits::UNLIMITED, |ones| CallLimits::sum([&ones]))
}
