//! What a call will cost in tokens, from its request: the bytes of its prompt, and the longest answer that it asks for.

use serde::Deserialize;
use tollway::config::Api;
use tollway::core::Name;

/// The longest answer that a request asks for, as vendors name it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    #[serde(rename = "generationConfig", alias = "generation_config")]
    generation: Option<Generation>,
    stream: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Generation {
    #[serde(rename = "maxOutputTokens", alias = "max_output_tokens")]
    max_output_tokens: Option<u64>,
}

/// What the body of a request says about its answer. Empty if it is not the JSON of a language model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) output_tokens: Option<u64>,
    pub(crate) streams: bool,
}

impl Wanted {
    pub(crate) fn of(body: &[u8]) -> Self {
        if body.first() != Some(&b'{') {
            return Self::default();
        }
        let asked: Asked = serde_json::from_slice(body).unwrap_or_default();
        let nested = asked.generation.and_then(|generation| generation.max_output_tokens);
        let named = [asked.max_tokens, asked.max_completion_tokens, asked.max_output_tokens, nested];
        Self { output_tokens: named.into_iter().flatten().max(), streams: asked.stream.unwrap_or_default() }
    }
}

/// The cost of a call in the units of the config and of answers, and what its caller names: never less than the estimate,
/// unless the config allows it.
pub(crate) fn costs(
    api: &Api,
    method: &str,
    path: &str,
    body_bytes: u64,
    wanted: Wanted,
    named: Vec<(Name, u64)>,
) -> Vec<(Name, u64)> {
    let of_endpoint =
        api.endpoint(method, path).map(|endpoint| endpoint.cost()).filter(|cost| !cost.is_empty());
    let configured = of_endpoint.unwrap_or(api.cost()).iter();
    let mut costs: Vec<(Name, u64)> =
        configured.map(|cost| (cost.unit().clone(), cost.estimate().of(body_bytes))).collect();
    if let Some(output) = wanted.output_tokens {
        // `tokens` are those of prompt and answer together.
        add(&mut costs, "tokens", |cost| cost.saturating_add(output));
        add(&mut costs, "output_tokens", |cost| cost.max(output));
    }
    for (unit, amount) in named {
        match costs.iter_mut().find(|(known, _)| *known == unit) {
            Some((_, cost)) if !api.gateway().allows_lower_costs() => *cost = amount.max(*cost),
            Some((_, cost)) => *cost = amount,
            None => costs.push((unit, amount)),
        }
    }
    costs
}

fn add(costs: &mut Vec<(Name, u64)>, unit: &str, change: impl Fn(u64) -> u64) {
    match costs.iter_mut().find(|(known, _)| known.as_str() == unit) {
        Some((_, cost)) => *cost = change(*cost),
        None => costs.extend(Name::new(unit).ok().map(|unit| (unit, change(0)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_answer_is_read_from_every_vendors_request() {
        for (body, output, streams) in [
            (r#"{"max_tokens": 100, "messages": []}"#, Some(100), false),
            (r#"{"max_completion_tokens": 7, "stream": true}"#, Some(7), true),
            (r#"{"max_output_tokens": 9, "input": "max_tokens"}"#, Some(9), false),
            (r#"{"generationConfig": {"maxOutputTokens": 11}}"#, Some(11), false),
            (r#"{"messages": [{"max_tokens": 5}]}"#, None, false),
            (r#"{"max_tokens": "many"}"#, None, false),
            ("[]", None, false),
            ("{", None, false),
            ("", None, false),
        ] {
            assert_eq!(Wanted::of(body.as_bytes()), Wanted { output_tokens: output, streams }, "{body}");
        }
    }

    #[test]
    fn a_caller_may_raise_the_estimate_and_lower_it_only_where_the_config_says_so() {
        let config = |more: &str| {
            let text = format!(
                "[apis.llm]\nbase_url = \"http://a\"\nrate = \"auto\"\ncost = {{ tokens = \"bytes / 4\" }}\n{more}"
            );
            let config = tollway::Config::parse(&text).unwrap_or_else(|error| panic!("{error}"));
            config.api("llm").unwrap().clone()
        };
        let unit = Name::new("tokens").unwrap();
        let wanted = Wanted { output_tokens: Some(50), streams: false };
        let cost = |api: &Api, named: u64| {
            let named = vec![(unit.clone(), named)];
            costs(api, "POST", "/v1/chat", 400, wanted, named)
                .iter()
                .find(|(known, _)| *known == unit)
                .unwrap()
                .1
        };
        let strict = config("");
        assert_eq!((cost(&strict, 10), cost(&strict, 151)), (150, 151));
        assert_eq!(cost(&config("[apis.llm.gateway]\nlower_costs = true"), 10), 10);
    }
}
