//! The plan for programs: every number of it.

use serde_json::{Value, json};
use tollway::Span;

use super::forecast::{Forecast, LimitForecast, Load, Moment};
use super::scenario::Scenario;

pub(super) fn of(forecasts: &[Forecast], load: &Load) -> Value {
    let plans: Vec<Value> = forecasts.iter().map(|forecast| plan(forecast, load)).collect();
    json!({
        "items": load.items,
        "calls_per_item": load.calls_per_item,
        "start": load.start.to_string(),
        "latency_ms": load.latency.map(millis),
        "retention_ms": load.retention.map(millis),
        "plans": plans,
    })
}

fn plan(forecast: &Forecast, load: &Load) -> Value {
    let Scenario { policy, what_if, .. } = &forecast.scenario;
    let limits: Vec<Value> = policy
        .limits()
        .iter()
        .zip(&forecast.limits)
        .map(|(limit, own)| {
            let LimitForecast { charge, share, last_grant } = own;
            json!({
                "name": limit.name().as_str(),
                "limit": limit.to_string(),
                "unit": limit.unit().as_str(),
                "cost": charge,
                "share": share,
                "slack": share.map(|share| 1.0 - share),
                "last_grant": last_grant.and_then(time),
            })
        })
        .collect();
    let workers = forecast.workers.as_ref().map(
        |workers| json!({ "enough": narrow(workers.enough), "most_useful": narrow(workers.most_useful) }),
    );
    json!({
        "what_if": what_if,
        "items_per_minute": forecast.items_in_each(Span::from_mins(1), load),
        "items_per_hour": forecast.items_in_each(Span::from_hours(1), load),
        "items_per_day": forecast.items_in_each(Span::from_days(1), load),
        "calls_per_second": forecast.rate.in_each(Span::from_secs(1), 1),
        "bottleneck": forecast.bottleneck().map(|limit| limit.name().as_str()),
        "takes_longest": forecast.takes_longest().map(|limit| limit.name().as_str()),
        "duration_ms": forecast.finish.and_then(|finish| finish.since(load.start)).map(millis),
        "finish": forecast.finish.and_then(time),
        "exact": forecast.exact,
        "beyond_2255": forecast.finish.map(|finish| finish == Moment::Beyond),
        "within_retention": forecast.within_retention(load),
        "workers": workers,
        "limits": limits,
    })
}

/// Rounded up, as everything that is waited for.
fn millis(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000)
}

fn time(moment: Moment) -> Option<String> {
    match moment {
        Moment::At(at) => Some(at.to_string()),
        Moment::Beyond => None,
    }
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
