//! The fields of an api: values for JSON, and one line of text each.

use serde_json::{Map, Value, json};
use tollway::config::{Api, ApiEndpoint, ApiHeader, ApiRate, Millionths, UnitCost};
use tollway::{Config, Limit};

use crate::humanize;

/// The fields as JSON, by the keys of a config. Values of headers that are usually secrets are left out.
pub(crate) fn json(api: &Api) -> Map<String, Value> {
    let names = |names: &[String]| Value::from(names.to_vec());
    let limits: Vec<String> = api.limits().iter().map(ToString::to_string).collect();
    let fields = [
        ("base_url", json!(api.base_url())),
        ("policy", json!(api.policy().map(|name| name.as_str()))),
        ("limits", names(&limits)),
        ("rate", api.rate().map_or(Value::Null, rate_json)),
        ("concurrency", json!(api.concurrency())),
        ("keep", json!(api.keep().to_string())),
        ("dialect", json!(api.dialect_name())),
        ("backoff_codes", json!(api.backoff_codes())),
        ("max_retries", json!(api.max_retries())),
        ("max_time", json!(api.max_time().to_string())),
        ("timeout", json!(api.timeout().to_string())),
        ("headers", Value::Object(api.headers().iter().map(header_json).collect())),
        ("cost", cost_json(api.cost())),
        ("endpoints", api.endpoints().iter().map(endpoint_json).collect()),
        ("documented", json!(api.documented())),
        ("documented_at", json!(api.documented_at())),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn rate_json(rate: ApiRate) -> Value {
    let Some(settings) = rate.settings() else { return json!("auto") };
    // Exactly as in the file: a double keeps more than six decimals.
    let shown = |setting: Millionths| setting.count() as f64 / Millionths::ONE as f64;
    json!({
        "initial": shown(settings.initial()),
        "min": shown(settings.min()),
        "max": shown(settings.max()),
        "increase_step": shown(settings.increase_step()),
        "decrease_factor": shown(settings.decrease_factor()),
    })
}

fn header_json(header: &ApiHeader) -> (String, Value) {
    let value = match (header.variable(), header.literal()) {
        (Some(variable), _) => json!({ "env": variable, "prefix": header.prefix() }),
        (None, Some(literal)) if !header.is_literal_secret() => json!(literal),
        (None, _) => Value::Null,
    };
    (header.name().to_owned(), value)
}

fn cost_json(costs: &[UnitCost]) -> Value {
    let cost = |cost: &UnitCost| (cost.unit().to_string(), json!(cost.estimate().to_string()));
    Value::Object(costs.iter().map(cost).collect())
}

fn endpoint_json(endpoint: &ApiEndpoint) -> Value {
    json!({
        "match": endpoint.pattern().to_string(),
        "policy": endpoint.policy().map(|name| name.as_str()),
        "cost": cost_json(endpoint.cost()),
    })
}

/// The value of each key as text, in the order of [`Api::KEYS`].
pub(super) fn texts(api: &Api, config: &Config) -> Vec<(&'static str, String)> {
    Api::KEYS.into_iter().map(|key| (key, text(api, config, key))).collect()
}

fn text(api: &Api, config: &Config, key: &str) -> String {
    let none = || "none".to_owned();
    match key {
        "base_url" => api.base_url().to_owned(),
        "policy" => api.policy().map_or_else(none, ToString::to_string),
        "limits" => limits(api, config),
        "rate" => api.rate().map_or_else(none, rate),
        "concurrency" => {
            api.concurrency().map_or_else(none, |calls| humanize::counted(calls.into(), "calls"))
        }
        "keep" if api.keep().is_none() => none(),
        "keep" => format!("{} of the vendor's quotas", api.keep()),
        "dialect" => api.dialect_name().unwrap_or("detected in each response").to_owned(),
        "backoff_codes" => joined(api.backoff_codes()),
        "max_retries" => api.max_retries().to_string(),
        "max_time" => humanize::span(api.max_time()),
        "timeout" => humanize::span(api.timeout()),
        "headers" => joined(&api.headers().iter().map(header).collect::<Vec<_>>()),
        "cost" => cost(api.cost()),
        "endpoints" => joined(&api.endpoints().iter().map(endpoint).collect::<Vec<_>>()),
        "documented" => api.documented().map_or_else(none, str::to_owned),
        "documented_at" => api.documented_at().map_or_else(none, str::to_owned),
        _ => String::new(),
    }
}

/// The limits of the api's policy without its rate, which is a field of its own.
fn limits(api: &Api, config: &Config) -> String {
    joined(&fixed_limits(api, config))
}

/// The same as a list: those of the config, if it has the policy.
pub(super) fn fixed_limits(api: &Api, config: &Config) -> Vec<Limit> {
    let policy = api.policy().and_then(|name| config.policy(name.as_str()));
    let limits = policy.map_or(api.limits(), |policy| policy.limits());
    let is_rate = |limit: &Limit| api.rate().is_some() && limit.is_adaptive();
    limits.iter().filter(|limit| !is_rate(limit)).cloned().collect()
}

fn rate(rate: ApiRate) -> String {
    match rate.settings() {
        None => "auto".to_owned(),
        Some(settings) => format!(
            "starts at {} a second, {} to {}, +{} for a success, x{} for a refusal",
            settings.initial(),
            settings.min(),
            settings.max(),
            settings.increase_step(),
            settings.decrease_factor()
        ),
    }
}

fn header(header: &ApiHeader) -> String {
    match (header.variable(), header.literal()) {
        (Some(variable), _) => format!("{}: {}${variable}", header.name(), header.prefix()),
        (None, Some(literal)) if !header.is_literal_secret() => format!("{}: {literal}", header.name()),
        (None, _) => format!("{}: (not shown)", header.name()),
    }
}

fn cost(costs: &[UnitCost]) -> String {
    joined(&costs.iter().map(|cost| format!("{} = {}", cost.unit(), cost.estimate())).collect::<Vec<_>>())
}

fn endpoint(endpoint: &ApiEndpoint) -> String {
    let mut parts = vec![endpoint.pattern().to_string()];
    parts.extend(endpoint.policy().map(|name| format!("policy {name}")));
    if !endpoint.cost().is_empty() {
        parts.push(format!("cost {}", cost(endpoint.cost())));
    }
    parts.join(" ")
}

/// Separated by commas; "none" if there are none.
pub(super) fn joined<T: ToString>(parts: &[T]) -> String {
    match parts {
        [] => "none".to_owned(),
        parts => parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
