//! When the turn of a call comes that waits behind others of this process, estimated: only the first of them asks the store.

use std::time::Duration;

use tollway::core::{Feedback, Limit, Reading};
use tollway::{PolicyHandle, Span};

use crate::acquire::{Wanted, adapts};
use crate::error::CallFailure;
use crate::limiter::ApiState;

/// A millionth of a call a second, as rates are counted, over a second in microseconds.
const MICROS_PER_MILLIONTH: u64 = 1_000_000_000_000;

impl ApiState {
    /// Ends a call that must know at once whether it waits too long, if the calls before it take longer. Nothing is taken.
    pub(crate) async fn check_queue(&self, wanted: &Wanted<'_>) -> Result<(), CallFailure> {
        if !wanted.ends_at_once {
            return Ok(());
        }
        let ahead = u64::try_from(self.gate.ahead_of(wanted.priority)).unwrap_or(u64::MAX);
        let Some(policy) = wanted.api.policy().filter(|_| ahead > 0) else { return Ok(()) };
        let handle = self.handle(policy)?;
        let wait = self.queue_wait(&handle, wanted, ahead).await?;
        if wait > self.left(wanted) {
            return Err(CallFailure::LateTurn { wait, waiting: self.gate.waiting() });
        }
        Ok(())
    }

    /// How long a call waits behind `ahead` others of the same cost: the store's exact time for the first, and the time that
    /// the limits need for the others.
    async fn queue_wait(
        &self,
        handle: &PolicyHandle,
        wanted: &Wanted<'_>,
        ahead: u64,
    ) -> Result<Duration, CallFailure> {
        let policy = handle.policy();
        let mut take = handle.try_take().subject(self.account.as_str());
        for (unit, amount) in wanted.cost.iter().filter(|(unit, _)| policy.units().contains(unit)) {
            take = take.cost(unit.as_str(), *amount);
        }
        let denied = take.preview().await?;
        let first = denied.as_ref().map_or(Duration::ZERO, |denied| denied.retry_after());
        let readings = denied.as_ref().and_then(|denied| denied.decision().charges.first());
        let rate = match adapts(&policy) {
            true => self.feedback(policy.name(), Feedback::default()).await?.rate.map(|rate| rate.rate),
            false => None,
        };
        let others = policy.limits().iter().enumerate().map(|(index, limit)| {
            let cost = wanted.cost.iter().find(|(unit, _)| unit == limit.unit()).map_or(1, |(_, cost)| *cost);
            let reading = readings.and_then(|charge| charge.readings.get(index));
            time_of(limit, ahead.saturating_mul(cost), reading, rate)
        });
        Ok(first.saturating_add(others.max().unwrap_or(Span::ZERO).into()))
    }
}

/// How long a limit needs for this many units, from the moment at which it has room again. Never too long, so that no call
/// is turned away that would have been in time: what is left of a window counts as empty.
fn time_of(limit: &Limit, units: u64, reading: Option<&Reading>, rate: Option<u64>) -> Span {
    if limit.is_adaptive() {
        let rate = rate.or_else(|| limit.starts_at()).unwrap_or(u64::MAX);
        return Span::from_micros(
            MICROS_PER_MILLIONTH.checked_div(rate).unwrap_or(u64::MAX).saturating_mul(units),
        );
    }
    // A limit of slots has no period: when they are freed is not known.
    let Some(period) = limit.period() else { return Span::ZERO };
    let amount = limit.amount().max(1);
    let room = match reading {
        Some(reading) if reading.remaining == 0 && limit.refills() => 0,
        _ => limit.capacity(),
    };
    let units = units.saturating_sub(room);
    match limit.is_window() {
        true => period.times(units.div_ceil(amount)),
        false => Span::from_micros(period.as_micros().checked_div(amount).unwrap_or(0).saturating_mul(units)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_ahead_take_the_time_that_the_limit_needs_for_them() {
        let limit = |text: &str| text.parse::<Limit>().unwrap();
        let time = |text: &str, units| Duration::from(time_of(&limit(text), units, None, None));
        assert_eq!(time("200 / minute", 200), Duration::ZERO, "they fit into one window");
        assert_eq!(time("200 / minute", 201), Duration::from_secs(60));
        assert_eq!(time("2 / second paced", 21), Duration::from_secs(10));
        assert_eq!(time("3 concurrent", 100), Duration::ZERO);
    }
}
