//! The plan as JSON.

use serde_json::{Value, json};
use tollway::Span;

use super::disk::Disk;
use super::forecast::{PipelineForecast, PolicyForecast, seconds};
use super::text::calls_without_limit;
use super::verdict::TooShort;
use super::work::{StageWork, Work};

pub(super) fn of(work: &Work, forecast: &PipelineForecast, disk: &Disk, verdict: Option<&TooShort>) -> Value {
    let [least, most] = forecast.takes.map(|takes| takes.map(seconds));
    let stages: Vec<Value> = work.stages.iter().map(|stage| stage_json(stage, forecast)).collect();
    let policies: Vec<Value> = forecast.policies.iter().map(|policy| policy_json(policy, work)).collect();
    json!({
        "pipeline": work.pipeline,
        "items": work.items,
        "items_per_minute": rounded(forecast.rate() * 60.0),
        "items_per_hour": rounded(forecast.rate() * 3_600.0),
        "items_per_day": rounded(forecast.rate() * 86_400.0),
        "bottleneck": forecast.bounds.first().map(|bound| &bound.name),
        "seconds": { "least": least, "most": most },
        "done_by": forecast.takes[1].map(|takes: Span| forecast.start.plus(takes).to_string()),
        "retries": { "share": work.retries, "measured": work.retries_measured },
        "stages": stages,
        "policies": policies,
        "disk": {
            "jobs": disk.jobs, "bytes": disk.bytes(), "bytes_per_job": disk.bytes_per_job, "data_bytes": disk.data,
            "measured": disk.measured,
            "free": disk.free,
        },
        "retention": {
            "long_enough": verdict.is_none(),
            "too_short": verdict.map(|verdict| &verdict.stages),
            "days_needed": verdict.and_then(TooShort::enough_days),
        },
    })
}

fn stage_json(stage: &StageWork, forecast: &PipelineForecast) -> Value {
    json!({
        "stage": stage.config.name.as_str(),
        "jobs": stage.jobs,
        "latency_s": stage.latency.map(seconds),
        "concurrency": stage.concurrency,
        "workers_enough": forecast.workers(stage),
        "retention_s": seconds(stage.retention),
    })
}

fn policy_json(policy: &PolicyForecast, work: &Work) -> Value {
    let stages: Vec<&StageWork> = work.stages.iter().filter(|stage| stage.takes_from(&policy.name)).collect();
    json!({
        "policy": policy.name,
        "limits": policy.limits,
        "calls_per_item": policy.calls_per_item,
        "calls_per_minute": rounded(policy.calls_rate * 60.0),
        "calls_per_minute_without_limit": calls_without_limit(&stages, work).map(rounded),
    })
}

/// To millionths, so that a whole number is one.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
