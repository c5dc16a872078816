//! One limit under a constant load: how fast it lets calls of one cost through, how many at once, and when the n-th.

use tollway_core::{Algorithm, Limit, Span, Timestamp};

use crate::plan::rate::Rate;
use crate::plan::sliding::Sliding;
use crate::plan::windows::{Windows, after};

/// A limit as seen by a caller that takes the same cost repeatedly, as early as possible.
#[derive(Clone, Debug)]
pub(crate) enum Flow {
    /// This many calls when a window opens.
    Windows { calls: u128, windows: Windows },
    /// This many calls at once, repeated after this time: windows from first call, and slots.
    Steps { calls: u128, every: Span },
    /// As the window before fades.
    Sliding(Sliding),
    /// The burst at once, then as it refills.
    Refill { amount: u64, period: Span, burst: u64, charge: u64 },
}

impl Flow {
    /// None where the limit delays no call: calls cost nothing of it, or hold its slots for an unknown time.
    ///
    /// A call is granted whole or not at all, so the rest of a window below one call's cost is never used.
    pub(crate) fn of(limit: &Limit, charge: u64, edge: Span, latency: Option<Span>) -> Option<Self> {
        let calls = u128::from(limit.amount().checked_div(charge)?);
        let amount = limit.amount();
        Some(match limit.algorithm() {
            Algorithm::Window(calendar) => {
                Self::Windows { calls, windows: Windows { calendar: calendar.clone(), edge } }
            }
            Algorithm::FromFirstCall(period) => Self::Steps { calls, every: *period },
            Algorithm::Sliding(period) => Self::Sliding(Sliding { amount, charge, period: *period }),
            Algorithm::Bucket { period, .. } | Algorithm::Paced(period) | Algorithm::Adaptive(period) => {
                Self::Refill { amount, period: *period, burst: limit.capacity(), charge }
            }
            Algorithm::Concurrency { .. } => Self::Steps { calls: amount.into(), every: latency? },
        })
    }

    /// In the long run.
    pub(crate) fn rate(&self) -> Rate {
        let micros = |span: Span| u128::from(span.as_micros());
        match self {
            Self::Windows { calls, windows } => Rate::new(*calls, micros(windows.average())),
            Self::Steps { calls, every } => Rate::new(*calls, micros(*every)),
            Self::Sliding(sliding) => sliding.rate(),
            Self::Refill { amount, period, charge, .. } => {
                Rate::new((*amount).into(), micros(*period).saturating_mul((*charge).into()))
            }
        }
    }

    /// When the call with this number, from 0 on, is granted to a caller that starts at `start` and has all limits for
    /// itself. None if that is after [`Timestamp::MAX`].
    pub(crate) fn grant(&self, number: u128, start: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Windows { calls, windows } => windows.opens(start, number.checked_div(*calls)?),
            Self::Steps { calls, every } => after(start, *every, number.checked_div(*calls)?),
            Self::Sliding(sliding) => sliding.grant(number, start),
            // Full at the moment of each grant: the refill of the rest of that microsecond is lost.
            Self::Refill { amount, period, burst, charge } if burst == charge => {
                let every = u128::from(*charge).checked_mul(period.as_micros().into())?;
                after(start, Span::from_micros(1), number.checked_mul(every.div_ceil((*amount).into()))?)
            }
            Self::Refill { amount, period, burst, charge } => {
                let taken = number.checked_add(1)?.checked_mul((*charge).into())?;
                let refilled = taken.saturating_sub((*burst).into());
                let micros = refilled.checked_mul(period.as_micros().into())?.div_ceil((*amount).into());
                after(start, Span::from_micros(1), micros)
            }
        }
    }

    /// The most calls in flight at the same time if each takes this long.
    pub(crate) fn peak(&self, latency: Span) -> u128 {
        let meanwhile = |every: Span| u128::from(latency.as_micros().div_ceil(every.as_micros().max(1)));
        match self {
            Self::Windows { calls, windows } => calls.saturating_mul(meanwhile(windows.average())),
            Self::Steps { calls, every } => calls.saturating_mul(meanwhile(*every)),
            Self::Sliding(Sliding { amount, charge, .. }) => {
                u128::from(amount / (*charge).max(1)).saturating_add(self.rate().in_flight(latency))
            }
            Self::Refill { amount, period, burst, charge } => {
                let wide = |one: u64, two: u64| u128::from(one).saturating_mul(two.into());
                let saved = wide(*burst, period.as_micros());
                let refilled = wide(*amount, latency.as_micros());
                // The first call ends at the moment at which one more is granted.
                (saved.saturating_add(refilled) - 1) / wide(period.as_micros(), *charge).max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::engine::Caller;
    use tollway_core::Policy;

    /// When the engine itself grants each of these calls.
    fn granted(policy: &Policy, charge: u64, calls: u64, start: Timestamp) -> Vec<Timestamp> {
        let cost = policy.cost([(policy.units()[0].as_str(), charge)]).unwrap();
        let mut caller = Caller::new(policy, &cost);
        let mut now = start;
        let mut next = || {
            now = caller.call(now).unwrap();
            now
        };
        (0..calls).map(|_| next()).collect()
    }

    /// A7: every algorithm, call by call, is granted when the engine grants it.
    #[test]
    fn planned_grants_match_the_engine() {
        let limits = [
            "1 requests / minute",
            "7 requests / minute",
            "5 requests / day in America/Los_Angeles",
            "3 requests / week in Europe/Berlin",
            "4 requests / month in Asia/Kathmandu",
            "2 requests / hour from first call",
            "1 requests / minute sliding",
            "2 requests / minute sliding",
            "5 requests / minute sliding",
            "10 requests / minute sliding",
            "1000003 requests / 2 ms sliding",
            "7 requests / minute bucket",
            "7 requests / minute bucket burst 5",
            "900 requests / 7 seconds bucket burst 10",
            "3 requests / second paced",
        ];
        let starts = [1_793_516_400_000_000, 1_793_541_599_750_000, 1_773_043_200_000_001, 0];
        for (limit, charge, start, edge) in limits.iter().flat_map(|limit| {
            let starts = move |charge| starts.map(|start| (charge, start));
            let all = [1, 2, 3, 500_001].into_iter().flat_map(starts);
            all.flat_map(move |(charge, start)| [0, 400].map(|edge| (limit, charge, start, edge)))
        }) {
            let policy = Policy::new("plan", [*limit]).unwrap().with_edge(Span::from_millis(edge));
            if charge > policy.limits()[0].capacity() {
                continue;
            }
            let start = Timestamp::from_micros(start);
            let flow = Flow::of(&policy.limits()[0], charge, policy.edge(), None).unwrap();
            for (number, at) in granted(&policy, charge, 60, start).into_iter().enumerate() {
                let planned = flow.grant(number as u128, start).unwrap();
                assert_eq!(planned, at, "{limit}, {charge} each, from {start}, edge {edge}: call {number}");
            }
        }
    }

    /// A7: over a hundred years, grants come at the forecast rate.
    #[test]
    fn grants_come_at_the_forecast_rate() {
        for limit in [
            "7 requests / minute",
            "2 requests / hour from first call",
            "1 requests / minute sliding",
            "10 requests / minute sliding",
            "7 requests / minute bucket burst 5",
            "25 requests / day in America/Los_Angeles",
            "40 requests / month in America/Los_Angeles",
        ] {
            let limit: Limit = limit.parse().unwrap();
            let flow = Flow::of(&limit, 1, Span::ZERO, None).unwrap();
            let hundred_years = Span::from_hours(876_582);
            let expected = flow.rate().in_flight(hundred_years);
            let start = Timestamp::from_secs(1_793_516_400);
            let took = flow.grant(expected, start).unwrap().since(start).as_micros();
            let off = took.abs_diff(hundred_years.as_micros());
            assert!(off <= Span::from_days(62).as_micros(), "{limit}: {took}");
        }
    }
}
