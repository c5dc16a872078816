//! The plan itself: the rate that all limits allow together, which of them holds it up, and when it is done.

use tollway::core::{Algorithm, Limit};
use tollway::{Span, Timestamp};

use super::flow::Flow;
use super::rate::{Figure, Rate};
use super::scenario::Scenario;
use super::together;
use crate::failure::Failure;

/// What is to be done.
pub(super) struct Load {
    pub(super) items: Option<u64>,
    pub(super) calls_per_item: u64,
    pub(super) start: Timestamp,
    pub(super) latency: Option<Span>,
    pub(super) retention: Option<Span>,
}

/// What comes of it under the limits of one scenario.
pub(super) struct Forecast {
    pub(super) scenario: Scenario,
    pub(super) rate: Rate,
    /// The index of the limit that holds it up.
    pub(super) bottleneck: usize,
    pub(super) limits: Vec<LimitForecast>,
    /// When the last call is done; none without items.
    pub(super) finish: Option<Moment>,
    /// Whether several limits were looked at together; if not, the finish is that of the slowest alone.
    pub(super) exact: bool,
    pub(super) workers: Option<Workers>,
}

/// What comes of one limit.
pub(super) struct LimitForecast {
    /// What one call takes of it.
    pub(super) charge: u64,
    /// The part of it that is used while the bottleneck is used up; none if it holds nobody up.
    pub(super) share: Option<f64>,
    /// When it alone would grant the last call.
    pub(super) last_grant: Option<Moment>,
}

/// A point in time, or one that lies beyond the year in which Tollway's time ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    At(Timestamp),
    Beyond,
}

/// How many calls are to be made at the same time.
pub(super) struct Workers {
    /// These keep up with the rate.
    pub(super) enough: u128,
    /// These use each burst at once; more would never be busy all together.
    pub(super) most_useful: u128,
}

impl Load {
    /// All calls of all items.
    pub(super) fn calls(&self) -> Option<u128> {
        self.items.map(|items| u128::from(items) * u128::from(self.calls_per_item))
    }
}

impl Moment {
    fn of(at: Option<Timestamp>) -> Self {
        at.map_or(Self::Beyond, Self::At)
    }

    fn plus(self, span: Span) -> Self {
        match self {
            Self::At(at) if at.plus(span) < Timestamp::MAX => Self::At(at.plus(span)),
            _ => Self::Beyond,
        }
    }

    /// How long after `start`; none beyond the end of time.
    pub(super) fn since(self, start: Timestamp) -> Option<Span> {
        match self {
            Self::At(at) => Some(at.since(start)),
            Self::Beyond => None,
        }
    }
}

impl Forecast {
    pub(super) fn new(scenario: Scenario, load: &Load) -> Result<Self, Failure> {
        let Scenario { policy, cost, .. } = &scenario;
        let charges: Vec<(&Limit, u64)> = policy.charges(cost).collect();
        let flow = |(limit, charge): &(&Limit, u64)| Flow::of(limit, *charge, policy.edge(), load.latency);
        let flows: Vec<Option<Flow>> = charges.iter().map(flow).collect();
        let rates = flows.iter().enumerate().filter_map(|(index, flow)| Some((flow.as_ref()?.rate(), index)));
        let (rate, bottleneck) = rates.min().ok_or_else(|| nothing_limits(&charges))?;
        let limits: Vec<LimitForecast> = charges
            .iter()
            .zip(&flows)
            .map(|((_, charge), flow)| LimitForecast::new(*charge, flow.as_ref(), rate, load))
            .collect();
        let slowest = limits.iter().filter_map(|limit| limit.last_grant).max();
        let together = match (load.calls(), flows.iter().flatten().count()) {
            (Some(calls), 2..) if slowest != Some(Moment::Beyond) => {
                together::last_grant(policy, cost, calls, load.start, load.latency)
            }
            _ => slowest,
        };
        let exact = together.is_some() || slowest.is_none();
        let finish = together.or(slowest).map(|at| at.plus(load.latency.unwrap_or(Span::ZERO)));
        let workers = load.latency.map(|latency| Workers::new(rate, &flows, latency, load.calls()));
        Ok(Self { rate, bottleneck, limits, finish, exact, workers, scenario })
    }

    /// How many items are done in each such time, in the long run.
    pub(super) fn items_in_each(&self, span: Span, load: &Load) -> Figure {
        self.rate.in_each(span, load.calls_per_item)
    }

    /// The limit that holds it up.
    pub(super) fn bottleneck(&self) -> Option<&Limit> {
        self.scenario.policy.limits().get(self.bottleneck)
    }

    /// The limit whose own last grant is the latest, which is the bottleneck unless the backlog is small; none without
    /// items.
    pub(super) fn takes_longest(&self) -> Option<&Limit> {
        let latest = self.limits.iter().filter_map(|limit| limit.last_grant).max()?;
        let is_latest =
            |index: &usize| self.limits.get(*index).is_some_and(|own| own.last_grant == Some(latest));
        let index =
            Some(self.bottleneck).filter(is_latest).or_else(|| (0..self.limits.len()).find(is_latest))?;
        self.scenario.policy.limits().get(index)
    }

    /// Whether all is done before jobs are lost; none if nobody asked.
    pub(super) fn within_retention(&self, load: &Load) -> Option<bool> {
        let (finish, retention) = (self.finish?, load.retention?);
        Some(finish.since(load.start).is_some_and(|took| took <= retention))
    }
}

impl LimitForecast {
    fn new(charge: u64, flow: Option<&Flow>, rate: Rate, load: &Load) -> Self {
        let last = load.calls().and_then(|calls| calls.checked_sub(1));
        Self {
            charge,
            share: flow.map(|flow| rate.share_of(flow.rate())),
            last_grant: flow.zip(last).map(|(flow, last)| Moment::of(flow.grant(last, load.start))),
        }
    }
}

impl Workers {
    fn new(rate: Rate, flows: &[Option<Flow>], latency: Span, calls: Option<u128>) -> Self {
        let peaks = flows.iter().flatten().map(|flow| flow.peak(latency));
        let most_useful = peaks.chain(calls).min().unwrap_or(1);
        Self { enough: rate.under_way(latency).min(most_useful), most_useful }
    }
}

/// Without a limit that calls wear down there is no rate.
fn nothing_limits(charges: &[(&Limit, u64)]) -> Failure {
    let slots = charges.iter().find(|(limit, _)| matches!(limit.algorithm(), Algorithm::Concurrency { .. }));
    match (slots, charges.first()) {
        (Some((limit, _)), _) => {
            Failure::usage(format!("how many calls \"{limit}\" lets through depends on how long one takes"))
                .advise("say how long a call takes, as in --latency 1.5s")
        }
        (None, Some((limit, _))) => {
            Failure::usage(format!("the calls cost nothing that \"{limit}\" counts, so nothing limits them"))
                .advise(format!("say what one call takes, as in --cost {}=100", limit.unit()))
        }
        (None, None) => Failure::usage("there are no limits"),
    }
}
