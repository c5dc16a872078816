//! The bodies of refusals and errors.

use serde_json::{Value, json};
use tollway_core::Span;

use super::ratelimit_fields::violated;
use super::{Refusal, go_duration, most_restrictive, used};
use crate::{QuotaState, Ruling, Unit};

const MINUTE: Span = Span::from_mins(1);
const DAY: Span = Span::from_days(1);

/// The delay that Gemini sends with a daily quota, which has nothing to do with it.
const GEMINI_DAILY_DELAY: Span = Span::from_secs(36);

/// A 5xx, in every dialect.
pub(super) fn failure() -> Value {
    json!({"error": {"message": "The simulated vendor failed on purpose.", "type": "server_error"}})
}

/// Anthropic's overload.
pub(super) fn anthropic_overload() -> Value {
    json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
}

pub(super) fn message(refusal: &Refusal<'_>) -> Value {
    json!({"error": {"message": too_many(refusal)}})
}

pub(super) fn problem(refusal: &Refusal<'_>) -> Value {
    json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "violated-policies": violated(refusal.ruling),
    })
}

pub(super) fn openai(refusal: &Refusal<'_>) -> Value {
    let quota = refusal.ruling.refused_by();
    let kind = quota.map_or("requests", unit_word);
    let what = quota.map_or_else(
        || "concurrent requests".to_owned(),
        |quota| {
            let (limit, used, period) = (quota.shape.limit(), used(quota), period_word(quota));
            format!("{kind} {period}: Limit {limit}, Used {used}")
        },
    );
    let wait = go_duration(refusal.wait);
    let message = format!("Rate limit reached for the model on {what}. Please try again in {wait}.");
    json!({"error": {"message": message, "type": kind, "param": null, "code": "rate_limit_exceeded"}})
}

pub(super) fn anthropic(refusal: &Refusal<'_>) -> Value {
    let message = match refusal.ruling.refused_by() {
        None => "Number of concurrent connections has exceeded your rate limit".to_owned(),
        Some(quota) => {
            let (limit, unit, period) = (quota.shape.limit(), unit_word(quota), period_word(quota));
            format!("This request would exceed your rate limit of {limit} {unit} {period}")
        }
    };
    json!({"type": "error", "error": {"type": "rate_limit_error", "message": message}})
}

pub(super) fn gemini(refusal: &Refusal<'_>) -> Value {
    let refused = || refusal.ruling.quotas.iter().filter(|quota| quota.wait.is_some());
    let is_daily = refused().any(|quota| quota.shape.period() >= DAY);
    let delay = if is_daily { GEMINI_DAILY_DELAY } else { refusal.wait };
    let delay = format!("{}s", super::whole_seconds(delay));
    let violations: Vec<Value> = refused().map(violation).collect();
    let mut details = vec![json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})];
    if !violations.is_empty() {
        let kind = "type.googleapis.com/google.rpc.QuotaFailure";
        details.insert(0, json!({"@type": kind, "violations": violations}));
    }
    let message = format!("You exceeded your current quota. Please retry in {delay}.");
    let code = refusal.status.as_u16();
    json!({"error": {"code": code, "status": "RESOURCE_EXHAUSTED", "message": message, "details": details}})
}

fn violation(quota: &QuotaState) -> Value {
    let period = match quota.shape.period() {
        MINUTE => "PerMinute",
        period if period >= DAY => "PerDay",
        _ => "",
    };
    let (metric, id) = match quota.unit {
        Unit::Calls => ("requests", format!("GenerateRequests{period}PerProjectPerModel-FreeTier")),
        Unit::Tokens => ("input_token_count", format!("GenerateContentInputTokensPerModel{period}-FreeTier")),
    };
    json!({
        "quotaMetric": format!("generativelanguage.googleapis.com/generate_content_free_tier_{metric}"),
        "quotaId": id,
        "quotaDimensions": {"location": "global", "model": "simulated"},
        "quotaValue": quota.shape.limit().to_string(),
    })
}

pub(super) fn github(refusal: &Refusal<'_>) -> Value {
    let message = if refusal.shown {
        "API rate limit exceeded for user ID 1."
    } else {
        "You have exceeded a secondary rate limit. Please wait before you try again."
    };
    json!({"message": message, "documentation_url": "https://docs.github.com/rest"})
}

pub(super) fn stripe(refusal: &Refusal<'_>) -> Value {
    json!({"error": {"code": "rate_limit", "type": "invalid_request_error", "message": too_many(refusal)}})
}

pub(super) fn notion(refusal: &Refusal<'_>) -> Value {
    json!({
        "object": "error",
        "status": refusal.status.as_u16(),
        "code": "rate_limited",
        "message": "You have been rate limited. Please try again in a few minutes.",
        "additional_data": {"rate_limit_reason": "integration"},
    })
}

pub(super) fn shopify(_: &Refusal<'_>) -> Value {
    json!({"errors": "Exceeded the rate limit for api client. Reduce request rates to resume uninterrupted service."})
}

/// What a query costs here, in points.
const QUERY_COST: u64 = 100;

pub(super) fn shopify_throttled(refusal: &Refusal<'_>) -> Value {
    let documentation = "https://shopify.dev/api/usage/rate-limits";
    let extensions = json!({"code": "THROTTLED", "documentation": documentation});
    let cost = shopify_cost(refusal.ruling, None);
    json!({"errors": [{"message": "Throttled", "extensions": extensions}], "extensions": {"cost": cost}})
}

pub(super) fn shopify_success(ruling: &Ruling, content: Value) -> Value {
    json!({"data": content, "extensions": {"cost": shopify_cost(ruling, Some(QUERY_COST))}})
}

/// The quota of calls as a bucket of points. Without one there is no cost to tell.
fn shopify_cost(ruling: &Ruling, actual: Option<u64>) -> Value {
    let quota = most_restrictive(ruling, |quota| quota.unit == Unit::Calls);
    let status = quota.map(|quota| {
        json!({
            "maximumAvailable": quota.shape.limit().saturating_mul(QUERY_COST),
            "currentlyAvailable": quota.left.saturating_mul(QUERY_COST),
            "restoreRate": quota.shape.rate().saturating_mul(QUERY_COST) / 1_000_000,
        })
    });
    json!({"requestedQueryCost": QUERY_COST, "actualQueryCost": actual, "throttleStatus": status})
}

pub(super) fn hubspot(refusal: &Refusal<'_>) -> Value {
    let policy = match refusal.ruling.refused_by().map(|quota| quota.shape.period()) {
        Some(period) if period >= DAY => "DAILY",
        Some(period) if period > Span::from_secs(1) => "TEN_SECONDLY_ROLLING",
        _ => "SECONDLY",
    };
    json!({
        "status": "error",
        "message": format!("You have reached your {} limit.", policy.to_lowercase()),
        "errorType": "RATE_LIMIT",
        "correlationId": "00000000-0000-0000-0000-000000000000",
        "policyName": policy,
    })
}

pub(super) fn salesforce(refusal: &Refusal<'_>) -> Value {
    let limit = if refusal.ruling.is_concurrency() { "ConcurrentPerOrgLongTxn" } else { "TotalRequests" };
    json!([{"message": format!("{limit} Limit exceeded."), "errorCode": "REQUEST_LIMIT_EXCEEDED"}])
}

pub(super) fn twilio(refusal: &Refusal<'_>) -> Value {
    json!({
        "code": 20_429,
        "message": "Too Many Requests",
        "more_info": "https://www.twilio.com/docs/errors/20429",
        "status": refusal.status.as_u16(),
    })
}

pub(super) fn slack(_: &Refusal<'_>) -> Value {
    json!({"ok": false, "error": "ratelimited"})
}

fn too_many(refusal: &Refusal<'_>) -> String {
    match refusal.ruling.refused_by() {
        None => "Too many requests at the same time.".to_owned(),
        Some(quota) => {
            format!(
                "Too many {}: {} {} are allowed.",
                unit_word(quota),
                quota.shape.limit(),
                period_word(quota)
            )
        }
    }
}

fn unit_word(quota: &QuotaState) -> &'static str {
    match quota.unit {
        Unit::Calls => "requests",
        Unit::Tokens => "tokens",
    }
}

/// `per min`, `per day`, or the length: OpenAI's words, which its readers look for.
fn period_word(quota: &QuotaState) -> String {
    match quota.shape.period() {
        MINUTE => "per min".to_owned(),
        period if period >= DAY => "per day".to_owned(),
        period => format!("per {period}"),
    }
}
