//! An api as a section of a config.

use std::fmt::Write as _;

use tollway::config::{Api, ApiHeader, ApiRate, FieldOrigin, UnitCost};
use tollway::{Config, Policy};

/// The section with every field that is not a default, after the policies of the config that it names.
pub(super) fn text(api: &Api, config: &Config) -> String {
    let mut text = String::new();
    for name in api.policies() {
        // A policy that is made of `limits` needs no section.
        let own = api.policy() == Some(name) && !api.limits().is_empty();
        if let Some(limits) =
            config.policy(name.as_str()).filter(|_| !own).and_then(|policy| limits(api, policy))
        {
            let header = format!("[policies.{}]\n", key(name.as_str()));
            if !text.contains(&header) {
                let _ = writeln!(text, "{header}limits = {limits}\n");
            }
        }
    }
    let _ = writeln!(text, "[apis.{}]", key(api.name().as_str()));
    for name in Api::KEYS {
        if api.origin(name) != FieldOrigin::Default
            && let Some(value) = value(api, name)
        {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
    for header in api.headers().iter().filter(|header| header.is_literal_secret()) {
        let _ = writeln!(
            text,
            "# The value of the header {} is not shown: keep it in a variable.",
            header.name()
        );
    }
    text
}

/// As the config has them: a rate is a limit of its policy, but a key of its api. None if there are no others: then the
/// policy was made of a rate.
fn limits(api: &Api, policy: &Policy) -> Option<String> {
    let has_rate = api.rate().is_some() && api.policy() == Some(policy.name());
    let limits = policy.limits().iter().filter(|limit| !(has_rate && limit.is_adaptive()));
    let limits: Vec<String> = limits.map(|limit| quoted(&limit.to_string())).collect();
    (!limits.is_empty()).then(|| list(limits.into_iter()))
}

fn value(api: &Api, name: &str) -> Option<String> {
    Some(match name {
        "base_url" => quoted(api.base_url()),
        "policy" => quoted(api.policy()?.as_str()),
        "limits" => list(api.limits().iter().map(|limit| quoted(&limit.to_string()))),
        "rate" => api.rate().map_or_else(|| quoted("off"), rate),
        "concurrency" => api.concurrency()?.to_string(),
        "keep" => quoted(&api.keep().to_string()),
        "dialect" => quoted(api.dialect_name()?),
        "backoff_codes" => list(api.backoff_codes().iter().map(ToString::to_string)),
        "max_retries" => api.max_retries().to_string(),
        "max_time" => quoted(&api.max_time().to_string()),
        "timeout" => quoted(&api.timeout().to_string()),
        "headers" => table(api.headers().iter().filter_map(header)),
        "cost" => cost(api.cost()),
        "endpoints" => list(api.endpoints().iter().map(|endpoint| {
            let mut fields = vec![format!("match = {}", quoted(&endpoint.pattern().to_string()))];
            fields.extend(endpoint.policy().map(|name| format!("policy = {}", quoted(name.as_str()))));
            if !endpoint.cost().is_empty() {
                fields.push(format!("cost = {}", cost(endpoint.cost())));
            }
            table(fields.into_iter())
        })),
        "documented" => quoted(api.documented()?),
        "documented_at" => quoted(api.documented_at()?),
        _ => return None,
    })
}

fn rate(rate: ApiRate) -> String {
    let Some(settings) = rate.settings() else { return quoted("auto") };
    let fields = [
        ("initial", settings.initial()),
        ("min", settings.min()),
        ("max", settings.max()),
        ("increase_step", settings.increase_step()),
        ("decrease_factor", settings.decrease_factor()),
    ];
    table(fields.into_iter().map(|(name, value)| format!("{name} = {value}")))
}

fn header(header: &ApiHeader) -> Option<String> {
    let name = key(header.name());
    match (header.variable(), header.literal()) {
        (Some(variable), _) if header.prefix().is_empty() => {
            Some(format!("{name} = {{ env = {} }}", quoted(variable)))
        }
        (Some(variable), _) => {
            Some(format!("{name} = {{ env = {}, prefix = {} }}", quoted(variable), quoted(header.prefix())))
        }
        (None, Some(literal)) if !header.is_literal_secret() => Some(format!("{name} = {}", quoted(literal))),
        (None, _) => None,
    }
}

fn cost(costs: &[UnitCost]) -> String {
    table(
        costs
            .iter()
            .map(|cost| format!("{} = {}", key(cost.unit().as_str()), quoted(&cost.estimate().to_string()))),
    )
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn table(fields: impl Iterator<Item = String>) -> String {
    match fields.collect::<Vec<_>>().join(", ") {
        fields if fields.is_empty() => "{}".to_owned(),
        fields => format!("{{ {fields} }}"),
    }
}

/// A key, quoted if it must be: names may have dots and letters of any alphabet.
fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

/// A TOML string. None of the values has control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
