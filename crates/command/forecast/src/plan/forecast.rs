//! The forecast: the rate that all limits allow together, the limit that is the bottleneck, and when the backlog is done.

use tollway_core::{Limit, Policy, PolicyError, Span, Timestamp};

use crate::plan::engine;
use crate::plan::error::PlanError;
use crate::plan::flow::Flow;
use crate::plan::rate::{Quantity, Rate};
use crate::plan::scenario::Scenario;

/// The work to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of items; without it there are only rates.
    pub items: Option<u64>,
    /// The number of calls that one item makes.
    pub calls_per_item: u64,
    /// When the first call is made.
    pub start: Timestamp,
    /// How long one call takes.
    pub latency: Option<Span>,
    /// How long a job is kept.
    pub retention: Option<Span>,
}

/// The forecast of a load under one scenario.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The policy and the cost of a call.
    pub scenario: Scenario,
    /// How fast calls are granted in the long run.
    pub rate: Rate,
    /// The index of the bottleneck among the limits.
    pub bottleneck: usize,
    /// One for each limit of the policy, in its order.
    pub limits: Vec<LimitForecast>,
    /// When the last call is done; none without items.
    pub finish: Option<Finish>,
    /// Whether the engine decided every call. If not, the finish is that of the slowest limit alone.
    pub exact: bool,
    /// How many workers it takes; none without a latency.
    pub workers: Option<Workers>,
}

/// The forecast of a load under one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitForecast {
    /// What one call takes of it.
    pub charge: u64,
    /// The part of it that is used at the rate of the bottleneck; none if it delays no call.
    pub share: Option<f64>,
    /// When it alone would grant the last call.
    pub last_grant: Option<Finish>,
}

/// A point in time, or one after [`Timestamp::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finish {
    /// At this time.
    At(Timestamp),
    /// After the last time that Tollway can write.
    Beyond,
}

/// How many workers to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Enough to keep up with the rate.
    pub enough: u128,
    /// Enough to use each burst at once; more would sometimes be idle.
    pub most_useful: u128,
}

impl Load {
    /// The calls of all items.
    pub fn calls(&self) -> Option<u128> {
        self.items.map(|items| u128::from(items) * u128::from(self.calls_per_item))
    }
}

impl Finish {
    fn of(at: Option<Timestamp>) -> Self {
        at.map_or(Self::Beyond, Self::At)
    }

    fn plus(self, span: Span) -> Self {
        match self {
            Self::At(at) if at.plus(span) < Timestamp::MAX => Self::At(at.plus(span)),
            _ => Self::Beyond,
        }
    }

    /// How long after `start`; none if it is [`Finish::Beyond`].
    pub fn since(self, start: Timestamp) -> Option<Span> {
        match self {
            Self::At(at) => Some(at.since(start)),
            Self::Beyond => None,
        }
    }
}

impl Forecast {
    /// Forecasts this load. Fails if no limit applies to its calls.
    pub fn new(scenario: Scenario, load: &Load) -> Result<Self, PlanError> {
        let (policy, cost) = (scenario.policy(), scenario.cost());
        let charges: Vec<(&Limit, u64)> = policy.amounts(cost).collect();
        let flow = |(limit, charge): &(&Limit, u64)| Flow::of(limit, *charge, policy.edge(), load.latency);
        let flows: Vec<Option<Flow>> = charges.iter().map(flow).collect();
        let rates = flows.iter().enumerate().filter_map(|(index, flow)| Some((flow.as_ref()?.rate(), index)));
        let (rate, bottleneck) = rates.min().ok_or_else(|| nothing_limits(policy, &charges))?;
        let limits: Vec<LimitForecast> = charges
            .iter()
            .zip(&flows)
            .map(|((_, charge), flow)| LimitForecast::new(*charge, flow.as_ref(), rate, load))
            .collect();
        let slowest = limits.iter().filter_map(|limit| limit.last_grant).max();
        let together = match (load.calls(), flows.iter().flatten().count()) {
            (Some(calls), 2..) if slowest != Some(Finish::Beyond) => {
                engine::last_grant(policy, cost, calls, load.start, load.latency)
            }
            _ => slowest,
        };
        let exact = together.is_some() || slowest.is_none();
        let finish = together.or(slowest).map(|at| at.plus(load.latency.unwrap_or(Span::ZERO)));
        let workers = load.latency.map(|latency| Workers::new(rate, &flows, latency, load.calls()));
        Ok(Self { rate, bottleneck, limits, finish, exact, workers, scenario })
    }

    /// How many items are done in each period of this length, in the long run.
    pub fn items_in_each(&self, span: Span, load: &Load) -> Quantity {
        self.rate.in_each(span, load.calls_per_item)
    }

    /// The limit that is the bottleneck.
    pub fn bottleneck(&self) -> Option<&Limit> {
        self.scenario.policy().limits().get(self.bottleneck)
    }

    /// The limit whose own last grant is the latest, which is the bottleneck unless the backlog is small; none without
    /// items.
    pub fn takes_longest(&self) -> Option<&Limit> {
        let latest = self.limits.iter().filter_map(|limit| limit.last_grant).max()?;
        let is_latest =
            |index: &usize| self.limits.get(*index).is_some_and(|own| own.last_grant == Some(latest));
        let index =
            Some(self.bottleneck).filter(is_latest).or_else(|| (0..self.limits.len()).find(is_latest))?;
        self.scenario.policy().limits().get(index)
    }

    /// Whether all calls are done within the retention; none without items or a retention.
    pub fn within_retention(&self, load: &Load) -> Option<bool> {
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
            last_grant: flow.zip(last).map(|(flow, last)| Finish::of(flow.grant(last, load.start))),
        }
    }
}

impl Workers {
    fn new(rate: Rate, flows: &[Option<Flow>], latency: Span, calls: Option<u128>) -> Self {
        let peaks = flows.iter().flatten().map(|flow| flow.peak(latency));
        let most_useful = peaks.chain(calls).min().unwrap_or(1);
        Self { enough: rate.in_flight(latency).min(most_useful), most_useful }
    }
}

/// Without a limit that delays calls there is no rate.
fn nothing_limits(policy: &Policy, charges: &[(&Limit, u64)]) -> PlanError {
    let slots = charges.iter().find(|(limit, _)| limit.has_slots());
    match (slots, charges.first()) {
        (Some((limit, _)), _) => PlanError::NeedsLatency { limit: Box::new((*limit).clone()) },
        (None, Some((limit, _))) => PlanError::CostsNothing { limit: Box::new((*limit).clone()) },
        (None, None) => PolicyError::Empty(policy.name().clone()).into(),
    }
}
