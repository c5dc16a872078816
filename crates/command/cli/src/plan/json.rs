//! The plan as JSON: every number of it.

use serde_json::{Value, json};
use tollway::Span;
use tollway_forecast::plan::{Finish, LimitForecast, Load, Quantity};

use super::Column;

pub(super) fn of(columns: &[Column], load: &Load) -> Value {
    let plans: Vec<Value> = columns.iter().map(|column| plan(column, load)).collect();
    json!({
        "items": load.items,
        "calls_per_item": load.calls_per_item,
        "start": load.start.to_string(),
        "latency_ms": load.latency.map(millis),
        "retention_ms": load.retention.map(millis),
        "plans": plans,
    })
}

fn plan(column: &Column, load: &Load) -> Value {
    let Column { what_if, forecast, .. } = column;
    let items_in_each = |span| quantity(forecast.items_in_each(span, load));
    let limits: Vec<Value> = forecast
        .scenario
        .policy()
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
        "items_per_minute": items_in_each(Span::from_mins(1)),
        "items_per_hour": items_in_each(Span::from_hours(1)),
        "items_per_day": items_in_each(Span::from_days(1)),
        "calls_per_second": quantity(forecast.rate.in_each(Span::from_secs(1), 1)),
        "bottleneck": forecast.bottleneck().map(|limit| limit.name().as_str()),
        "takes_longest": forecast.takes_longest().map(|limit| limit.name().as_str()),
        "duration_ms": forecast.finish.and_then(|finish| finish.since(load.start)).map(millis),
        "finish": forecast.finish.and_then(time),
        "exact": forecast.exact,
        "beyond_2255": forecast.finish.map(|finish| finish == Finish::Beyond),
        "within_retention": forecast.within_retention(load),
        "workers": workers,
        "limits": limits,
    })
}

/// Rounded up, like every wait.
fn millis(span: Span) -> u64 {
    span.as_micros().div_ceil(1_000)
}

fn time(finish: Finish) -> Option<String> {
    match finish {
        Finish::At(at) => Some(at.to_string()),
        Finish::Beyond => None,
    }
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// An integer if it is one.
fn quantity(quantity: Quantity) -> Value {
    let millionths = quantity.millionths();
    match u64::try_from(millionths / Quantity::ONE) {
        Ok(whole) if millionths.is_multiple_of(Quantity::ONE) => whole.into(),
        _ => (millionths as f64 / Quantity::ONE as f64).into(),
    }
}
