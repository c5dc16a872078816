//! Refusals without headers of their own, read without a profile: by exact places in the body, and nowhere else.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use tollway_dialects::{Dialect, Observation, RefusalKind, VendorResponse};

use RefusalKind::{Concurrency, DailyQuota, Lock, NoAccess, Overload, Rate};

fn observe(status: u16, body: &str) -> Observation {
    let headers = HeaderMap::new();
    let status = StatusCode::from_u16(status).unwrap();
    Dialect::detect(&headers).observe(&VendorResponse { status, headers: &headers, body: body.as_bytes() })
}

/// One refusal of each vendor: status, body, kind, wait in milliseconds.
const REFUSALS: [(&str, u16, &str, RefusalKind, Option<u64>); 27] = [
    ("slack", 200, r#"{"ok": false, "error": "ratelimited"}"#, Rate, None),
    ("slack", 200, r#"{"error": "rate_limited", "ok": false}"#, Rate, None),
    (
        "shopify",
        200,
        r#"{"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}], "extensions": {"cost":
           {"requestedQueryCost": 202, "throttleStatus": {"maximumAvailable": 1000.0, "currentlyAvailable": 118,
           "restoreRate": 50.0}}}}"#,
        Rate,
        Some(1_680),
    ),
    ("shopify", 200, r#"{"data": null, "errors": [{"extensions": {"code": "THROTTLED"}}]}"#, Rate, None),
    ("github", 200, r#"{"errors": [{"type": "RATE_LIMITED", "message": "exceeded"}]}"#, Rate, None),
    ("aws", 400, r#"{"__type": "ThrottlingException", "message": "Rate exceeded"}"#, Rate, None),
    ("aws", 400, r#"{"__type": "com.amazon.coral.availability#ThrottlingException"}"#, Rate, None),
    ("aws", 400, r#"{"__type": "x#ProvisionedThroughputExceededException"}"#, Rate, None),
    (
        "aws",
        503,
        "<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>",
        Rate,
        None,
    ),
    ("aws", 503, "<Error><Code>SlowDown</Code></Error>", Rate, None),
    ("aws", 400, "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>", Rate, None),
    ("google", 403, r#"{"error": {"errors": [{"reason": "rateLimitExceeded"}], "code": 403}}"#, Rate, None),
    ("google", 403, r#"{"error": {"errors": [{"reason": "quotaExceeded"}], "code": 403}}"#, DailyQuota, None),
    (
        "gemini",
        429,
        r#"{"error": {"status": "RESOURCE_EXHAUSTED", "details": [
           {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
           {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel", "quotaValue": "5"}]},
           {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"}]}}"#,
        Rate,
        Some(36_500),
    ),
    (
        "gemini",
        429,
        r#"{"error": {"details": [{"violations": [{"quotaId": "GenerateRequestsPerDay", "quotaValue": "25"}]},
           {"retryDelay": "5s"}]}}"#,
        DailyQuota,
        None,
    ),
    (
        "hubspot",
        429,
        r#"{"status": "error", "errorType": "RATE_LIMIT", "policyName": "DAILY"}"#,
        DailyQuota,
        None,
    ),
    (
        "salesforce",
        403,
        r#"[{"message": "TotalRequests Limit exceeded.", "errorCode": "REQUEST_LIMIT_EXCEEDED"}]"#,
        DailyQuota,
        None,
    ),
    (
        "salesforce",
        403,
        r#"[{"message": "ConcurrentPerOrgLongTxn Limit exceeded.", "errorCode": "REQUEST_LIMIT_EXCEEDED"}]"#,
        Concurrency,
        None,
    ),
    (
        "twilio",
        429,
        r#"{"code": 20429, "message": "Too Many Requests", "more_info": "...", "status": 429}"#,
        Concurrency,
        None,
    ),
    (
        "anthropic",
        529,
        r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#,
        Overload,
        None,
    ),
    (
        "anthropic",
        500,
        r#"{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}"#,
        Overload,
        None,
    ),
    ("openai", 429, r#"{"error": {"code": "insufficient_quota"}}"#, NoAccess, None),
    (
        "openai",
        429,
        r#"{"error": {"code": "rate_limit_exceeded", "message": "Limit 3. Please try again in 1.25s."}}"#,
        Rate,
        Some(1_250),
    ),
    ("stripe", 429, r#"{"error": {"code": "rate_limit"}}"#, Rate, None),
    ("stripe", 429, r#"{"error": {"code": "lock_timeout"}}"#, Lock, None),
    ("discord", 429, r#"{"message": "limited", "retry_after": 64.57, "global": false}"#, Rate, Some(64_570)),
    (
        "github",
        403,
        r#"{"message": "You have exceeded a secondary rate limit. Please wait.",
           "documentation_url": "https://docs.github.com/rest/overview"}"#,
        Rate,
        Some(60_000),
    ),
];

/// D1: each vendor is known by the body of its refusal.
#[test]
fn refusals_are_known_by_their_bodies() {
    for (vendor, status, body, kind, wait) in REFUSALS {
        let observed = observe(status, body);
        assert_eq!(
            (observed.refusal, observed.wait),
            (Some(kind), wait.map(Duration::from_millis)),
            "{vendor}: {body}"
        );
    }
}

/// D1: the same words in a deeper place, in an element of a list and in a text are data.
#[test]
fn the_same_words_elsewhere_are_no_refusal() {
    for (vendor, _, body, _, _) in REFUSALS {
        let quoted = serde_json::Value::String(body.to_owned()).to_string();
        let json = if body.starts_with('<') { quoted.as_str() } else { body };
        for elsewhere in [
            format!(r#"{{"data": {json}}}"#),
            format!(r#"{{"message": {quoted}}}"#),
            format!(r#"{{"error": {{"message": {quoted}}}}}"#),
            format!(r#"{{"ok": true, "error": {{"inner": {json}}}}}"#),
            format!("[{json}]"),
            format!("<Message><![CDATA[{body}]]></Message>"),
            format!("<Wrapper>{body}</Wrapper>"),
            format!("<Log><Entry>{}</Entry></Log>", body.replace('{', "&#123;")),
        ] {
            for status in [200, 400, 403, 500] {
                // An element of a list is read in an error: Salesforce sends it so.
                if elsewhere.starts_with('[') && status != 200 {
                    continue;
                }
                let observed = observe(status, &elsewhere);
                assert_eq!(observed.refusal, None, "{vendor}: {status} {elsewhere}");
            }
        }
    }
}

/// A body that tells a refusal of an error is none in a success, and the other way round.
#[test]
fn a_place_has_its_statuses() {
    for (status, body) in [
        (200, r#"{"__type": "ThrottlingException"}"#),
        (200, r#"{"code": 20429, "status": 429}"#),
        (200, r#"{"errorCode": "REQUEST_LIMIT_EXCEEDED"}"#),
        (200, r#"{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}"#),
        (404, r#"{"error": {"code": "lock_timeout"}}"#),
        (200, r#"[{"errors": [{"extensions": {"code": "THROTTLED"}}]}]"#),
        (200, r#"[{"ok": false, "error": "ratelimited"}]"#),
    ] {
        assert_eq!(observe(status, body).refusal, None, "{status} {body}");
    }
}

/// D1: a wait is one of all calls on these statuses, and of this call alone on the others.
#[test]
fn retry_after_is_a_refusal_of_these_statuses_only() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("7"));
    for status in 400..=599 {
        let expected = match status {
            403 | 429 => Some(Rate),
            408 | 413 | 423 | 425 | 500.. => Some(Overload),
            _ => None,
        };
        let status = StatusCode::from_u16(status).unwrap();
        let observed =
            Dialect::detect(&headers).observe(&VendorResponse { status, headers: &headers, body: b"" });
        assert_eq!((observed.refusal, observed.wait), (expected, Some(Duration::from_secs(7))), "{status}");
    }
}
