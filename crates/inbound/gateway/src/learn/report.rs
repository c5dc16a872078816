//! What was learned, as a section to copy into a config: each line with its evidence, and what could not be seen.

use std::fmt::Write;
use std::time::Duration;

use tollway::Span;
use tollway::config::Api;

use super::seen::{QuotaSeen, Seen, Unread};

/// Windows that vendors use. One that no answer tells is the shortest of them that is as long as every reset.
const WINDOWS: [(&str, u64); 4] = [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400)];

/// Units that limits of a policy count; the others need a policy of their own.
const UNITS: [&str; 6] = ["requests", "tokens", "input_tokens", "output_tokens", "points", "bytes"];

pub(super) fn section(api: &Api, seen: &Seen) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, api, seen);
    text
}

fn write(text: &mut String, api: &Api, seen: &Seen) -> std::fmt::Result {
    let watched = Span::from_secs(seen.until.since(seen.since).as_micros() / 1_000_000);
    writeln!(
        text,
        "# Watched {watched}: {} calls, {} answers, {} of them 5xx.",
        seen.calls, seen.answered, seen.failed
    )?;
    writeln!(text, "[apis.{}]", api.name())?;
    writeln!(text, "base_url = {:?}", api.base_url())?;
    if let Some(dialect) = seen.dialect {
        writeln!(text, "dialect = {dialect:?} # answers of its kind were recognised")?;
    }
    let limits: Vec<(String, String)> =
        seen.quotas.iter().filter_map(|((_, unit), quota)| limit(unit, quota)).collect();
    if !limits.is_empty() {
        writeln!(text, "limits = [")?;
        for (limit, evidence) in limits {
            writeln!(text, "    {limit:?}, # {evidence}")?;
        }
        writeln!(text, "]")?;
    }
    if let Some(concurrency) = seen.concurrency() {
        writeln!(
            text,
            "concurrency = {concurrency} # told by answers; at most {} were in flight",
            seen.most_in_flight
        )?;
    }
    writeln!(text, "rate = \"auto\" # finds what no answer tells")?;
    let [second, minute] = seen.most_accepted;
    writeln!(
        text,
        "# Accepted at most {second} calls in a second, {minute} in a minute, with {} in flight.",
        seen.most_in_flight
    )?;
    let tokens = seen.tokens;
    if tokens.answers > 0 {
        writeln!(
            text,
            "# Used at most {} tokens in a call, {} in a minute, as `usage` of {} answers tells.",
            tokens.most_in_call, tokens.most_in_minute, tokens.answers
        )?;
    }
    for (kind, refused) in &seen.refusals {
        let wait = refused
            .longest_wait
            .map_or("told no wait".to_owned(), |wait| format!("asked to wait up to {}", words(wait)));
        writeln!(text, "# Refused {} calls ({kind}) and {wait}.", refused.count)?;
    }
    not_seen(text, seen)
}

fn not_seen(text: &mut String, seen: &Seen) -> std::fmt::Result {
    let has_day = seen
        .quotas
        .values()
        .any(|quota| quota.window.is_some_and(|window| window >= Duration::from_secs(86_400)));
    for (is_missing, line) in [
        (seen.quotas.is_empty(), "quotas. No answer told one."),
        (seen.refusals.is_empty(), "a refusal. The limit is above this traffic."),
        (!has_day, "a quota of a day or longer. Ask the vendor's page."),
        (
            seen.tokens.answers == 0,
            "tokens. No answer had a `usage`; OpenAI's streams have one with stream_options.include_usage only.",
        ),
    ] {
        if is_missing {
            writeln!(text, "# Not seen: {line}")?;
        }
    }
    for (why, count) in &seen.unread {
        let what = match why {
            Unread::Compressed => "in their bodies, which are compressed: let callers ask for identity",
            Unread::Stream => "about limits inside their streams, of which only `usage` was read",
            Unread::TooLong => "behind the first 64 KiB of their bodies",
        };
        writeln!(text, "# Not seen: what {count} answers say {what}.")?;
    }
    Ok(())
}

/// The limit that a quota is, with its evidence; none if its amount, unit or window is not known.
fn limit(unit: &str, quota: &QuotaSeen) -> Option<(String, String)> {
    let amount = quota.limit.filter(|amount| *amount > 0)?;
    let unit = UNITS.contains(&unit).then_some(unit)?;
    let (window, source) = match (quota.window, quota.longest_reset) {
        (Some(window), _) => (period(window), "its window".to_owned()),
        (None, Some(reset)) => {
            let (word, _) = WINDOWS.iter().find(|(_, seconds)| reset <= Duration::from_secs(*seconds))?;
            (
                (*word).to_owned(),
                format!("resets up to {} ahead, from which the window is guessed", words(reset)),
            )
        }
        (None, None) => return None,
    };
    let varies = if quota.varies { "; answers told different amounts, this is the smallest" } else { "" };
    let left = quota.least_left.map_or(String::new(), |left| format!("; at least {left} were left"));
    // Where the vendor's window begins is not known: a sliding one fits any.
    let limit = format!("{amount} {unit} / {window} sliding");
    Some((limit, format!("{} answers told it, and {source}{left}{varies}", quota.told)))
}

fn period(window: Duration) -> String {
    let known = WINDOWS.iter().find(|(_, seconds)| window == Duration::from_secs(*seconds));
    known.map_or_else(|| format!("{}s", window.as_secs().max(1)), |(word, _)| (*word).to_owned())
}

fn words(time: Duration) -> String {
    Span::from_secs(time.as_secs().max(1)).to_string()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tollway::{Config, Timestamp};
    use tollway_dialects::{Dialect, VendorResponse};

    use super::*;

    /// D5: what headers told is a config that Tollway reads, and what was not seen is named.
    #[test]
    fn a_report_is_a_config_with_evidence() {
        let api = Api::profile("openai").unwrap();
        let mut seen = Seen::new(Timestamp::from_secs(1_000));
        let told = [
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", "498"),
            ("x-ratelimit-reset-requests", "120ms"),
            ("x-ratelimit-limit-tokens", "200000"),
            ("x-ratelimit-remaining-tokens", "199000"),
            ("x-ratelimit-reset-tokens", "6s"),
        ];
        let headers =
            told.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let dialect = Dialect::by_name("openai").unwrap();
        for second in 0..3 {
            let now = Timestamp::from_secs(1_000 + second);
            seen.sent(now);
            let answer = VendorResponse { status: StatusCode::OK, headers: &headers, body: &[] };
            seen.answered(answer.status, dialect.name(), &dialect.observe(&answer), now);
            seen.ended();
        }
        let text = section(&api, &seen);
        let config = Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let learned = config.api("openai").unwrap();
        let limits: Vec<String> = learned.limits().iter().map(ToString::to_string).collect();
        assert!(limits.iter().any(|limit| limit.starts_with("500 requests")), "{text}");
        assert!(
            limits.iter().any(|limit| limit.starts_with("200k tokens") || limit.starts_with("200000 tokens")),
            "{text}"
        );
        for evidence in [
            "3 answers told it",
            "Not seen: a refusal",
            "Not seen: a quota of a day",
            "Not seen: tokens.",
            "at most 1 calls in a second, 3 in a minute",
        ] {
            assert!(text.contains(evidence), "{evidence}: {text}");
        }
    }

    #[test]
    fn an_api_without_headers_leaves_everything_to_be_found() {
        let api = Api::profile("notion").unwrap();
        let text = section(&api, &Seen::new(Timestamp::from_secs(1_000)));
        let config = Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(config.api("notion").unwrap().rate().is_some());
        assert!(text.contains("Not seen: quotas") && !text.contains("dialect"), "{text}");
    }
}
