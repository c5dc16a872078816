//! What limits and workers make of the work.

use std::collections::{BTreeMap, BTreeSet};

use tollway::{Config, Span, Timestamp};
use tollway_forecast::plan::{Forecast, Load, PlanError, Scenario};

use super::LATENCY_DEFAULT;
use super::work::{StageWork, Work};
use crate::failure::{Exit, Failure};
use crate::humanize::counted;

/// A year, in which a rate is measured.
const YEAR: Span = Span::from_days(365);

/// The forecast of a pipeline.
pub(super) struct PipelineForecast {
    pub(super) start: Timestamp,
    /// Each policy that stages take from.
    pub(super) policies: Vec<PolicyForecast>,
    /// What limits an item, the slowest first.
    pub(super) bounds: Vec<Bound>,
    /// Without a retry, and with as many as there may be. None: for more than two centuries.
    pub(super) takes: [Option<Span>; 2],
    /// Items a second that the limits allow; none: nothing is taken.
    pub(super) limit_rate: Option<f64>,
}

/// What a policy allows.
pub(super) struct PolicyForecast {
    pub(super) name: String,
    /// Its limits, as in the config.
    pub(super) limits: String,
    pub(super) calls_per_item: u64,
    /// Calls a second.
    pub(super) calls_rate: f64,
}

/// Something that limits how many items are done.
pub(super) struct Bound {
    /// As it is printed.
    pub(super) name: String,
    /// Items a second.
    pub(super) rate: f64,
    takes: [Option<Span>; 2],
}

impl PipelineForecast {
    pub(super) fn new(work: &Work, limits: &Config, start: Timestamp) -> Result<Self, Failure> {
        let names: BTreeSet<String> =
            work.stages.iter().flat_map(|stage| stage.config.take.amounts().into_keys()).collect();
        let (mut policies, mut bounds) = (Vec::new(), Vec::new());
        for name in names {
            let (policy, bound) = of_policy(&name, work, limits, start)?;
            policies.push(policy);
            bounds.push(bound);
        }
        let limit_rate = bounds.iter().map(|bound| bound.rate).reduce(f64::min);
        bounds.extend(work.stages.iter().filter_map(|stage| of_stage(stage, work)));
        bounds.extend(of_total(work));
        bounds.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let longest = |end: usize| bounds.iter().map(|bound| bound.takes[end]).reduce(later).flatten();
        let takes = [longest(0), longest(1)];
        Ok(Self { start, policies, bounds, takes, limit_rate })
    }

    /// Items a second.
    pub(super) fn rate(&self) -> f64 {
        self.bounds.first().map_or(0.0, |slowest| slowest.rate)
    }

    /// How many jobs of a stage run at a time if the limits are used up.
    pub(super) fn workers(&self, stage: &StageWork) -> Option<u64> {
        // Rounded, so that a whole number does not become one more.
        let running = self.limit_rate? * seconds(stage.latency?);
        Some(((running * 1e6).round() / 1e6).ceil() as u64)
    }
}

/// The longer one, where none is for ever.
fn later(one: Option<Span>, other: Option<Span>) -> Option<Span> {
    Some(one?.max(other?))
}

/// Calls of one cost.
struct Calls {
    per_item: u64,
    /// Without and with retries.
    all: [u64; 2],
    latency: Span,
}

fn of_policy(
    name: &str,
    work: &Work,
    limits: &Config,
    start: Timestamp,
) -> Result<(PolicyForecast, Bound), Failure> {
    let policy = limits.policy(name);
    let policy = policy.ok_or_else(|| Failure::not_found(format!("there is no policy {name:?}")))?;
    let mut seconds_per_item = 0.0;
    let mut takes = [Some(Span::ZERO); 2];
    let mut calls_per_item = 0;
    // Different costs are planned as if one came after the other: with several units, it may be done sooner.
    for (cost, calls) in calls_by_cost(name, work) {
        let costs: Vec<(&str, u64)> = cost.iter().map(|(unit, amount)| (unit.as_str(), *amount)).collect();
        let scenario = Scenario::new((**policy).clone(), &costs).map_err(|error| never(name, error))?;
        let forecast = |calls_in_all: u64| {
            let load = Load {
                items: Some(calls_in_all).filter(|calls| *calls > 0),
                calls_per_item: 1,
                start,
                latency: Some(calls.latency),
                retention: None,
            };
            Forecast::new(scenario.clone(), &load).map_err(|error| never(name, error))
        };
        for (end, all) in calls.all.into_iter().enumerate() {
            let finish = forecast(all)?.finish;
            let took = finish.map_or(Some(Span::ZERO), |finish| finish.since(start));
            takes[end] = takes[end].zip(took).map(|(one, other)| one.plus(other));
        }
        let in_a_year = forecast(1)?.rate.in_each(YEAR, 1).millionths() as f64 / 1e6;
        seconds_per_item += calls.per_item as f64 * seconds(YEAR) / in_a_year;
        calls_per_item += calls.per_item;
    }
    let rate = 1.0 / seconds_per_item;
    let limits = policy.limits().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let each = counted(calls_per_item, "calls");
    let bound = Bound { name: format!("{name}: {limits}, {each} an item"), rate, takes };
    let calls_rate = rate * calls_per_item as f64;
    Ok((PolicyForecast { name: name.to_owned(), limits, calls_per_item, calls_rate }, bound))
}

fn calls_by_cost(policy: &str, work: &Work) -> BTreeMap<BTreeMap<String, u64>, Calls> {
    let mut by_cost: BTreeMap<BTreeMap<String, u64>, Calls> = BTreeMap::new();
    for stage in &work.stages {
        let Some(cost) = stage.config.take.amounts().remove(policy) else { continue };
        let latency = stage.latency.unwrap_or(LATENCY_DEFAULT);
        let calls = by_cost.entry(cost).or_insert(Calls { per_item: 0, all: [0; 2], latency });
        calls.per_item += 1;
        calls.all[0] += stage.jobs;
        calls.all[1] += work.with_retries(stage.jobs);
        calls.latency = calls.latency.max(latency);
    }
    by_cost
}

fn never(policy: &str, error: PlanError) -> Failure {
    Failure::new(Exit::CONFIG, format!("policy {policy}: {error}"))
        .advise("change `take` of the stage, or the limit")
}

/// The workers of a stage, if it is known how long a job takes.
fn of_stage(stage: &StageWork, work: &Work) -> Option<Bound> {
    let (places, latency) = (f64::from(stage.concurrency), seconds(stage.latency?));
    let takes = [stage.jobs, work.with_retries(stage.jobs)].map(|jobs| span(jobs as f64 * latency / places));
    let name = format!(
        "concurrency of {}: {} at a time",
        stage.config.name,
        counted(stage.concurrency.into(), "jobs")
    );
    Some(Bound { name, rate: places / latency, takes })
}

/// The workers of all stages together.
fn of_total(work: &Work) -> Option<Bound> {
    let total = work.total_concurrency?;
    let places = f64::from(total);
    let timed = || work.stages.iter().filter_map(|stage| Some((stage.jobs, seconds(stage.latency?))));
    let one_item: f64 = timed().map(|(_, latency)| latency).sum();
    let busy = |jobs: fn(&Work, u64) -> u64| -> f64 {
        timed().map(|(passing, latency)| jobs(work, passing) as f64 * latency).sum()
    };
    let takes = [busy(|_, jobs| jobs), busy(Work::with_retries)].map(|busy| span(busy / places));
    let name = format!("concurrency of the pipeline: {} at a time", counted(total.into(), "jobs"));
    Some(Bound { name, rate: places / one_item, takes })
}

pub(super) fn seconds(span: Span) -> f64 {
    span.as_micros() as f64 / 1e6
}

/// None: longer than times can be written.
fn span(seconds: f64) -> Option<Span> {
    let micros = seconds * 1e6;
    (micros < Timestamp::MAX.as_micros() as f64).then(|| Span::from_micros(micros.ceil() as u64))
}
