//! The bodies of refusals of AWS and Google.

use serde_json::{Value, json};
use tollway_core::Span;

use super::Refusal;

const DAY: Span = Span::from_days(1);

/// An older service, such as Drive or Calendar.
pub(super) fn google(refusal: &Refusal<'_>) -> Value {
    let is_daily = refusal.ruling.refused_by().is_some_and(|quota| quota.shape.period() >= DAY);
    let (reason, message) = match is_daily {
        true => ("dailyLimitExceeded", "Daily Limit Exceeded"),
        false => ("rateLimitExceeded", "Rate Limit Exceeded"),
    };
    let errors = json!([{"domain": "usageLimits", "reason": reason, "message": message}]);
    json!({"error": {"errors": errors, "code": refusal.status.as_u16(), "message": message}})
}

pub(super) fn aws_json(_: &Refusal<'_>) -> Value {
    json!({"__type": "ThrottlingException", "message": "Rate exceeded"})
}

pub(super) fn dynamodb(_: &Refusal<'_>) -> Value {
    json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "The level of configured provisioned throughput for the table was exceeded.",
    })
}

pub(super) fn lambda(refusal: &Refusal<'_>) -> Value {
    let reason = match refusal.ruling.is_concurrency() {
        true => "ConcurrentInvocationLimitExceeded",
        false => "CallerRateLimitExceeded",
    };
    json!({"Reason": reason, "Type": "User", "message": "Rate Exceeded."})
}

/// `ErrorResponse/Error/Code`.
pub(super) fn aws_query(_: &Refusal<'_>) -> String {
    let error = "<Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error>";
    format!(
        "<ErrorResponse>{error}<RequestId>00000000-0000-0000-0000-000000000000</RequestId></ErrorResponse>"
    )
}

/// `Response/Errors/Error/Code`.
pub(super) fn ec2(_: &Refusal<'_>) -> String {
    let error = "<Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error>";
    let id = "<RequestID>00000000-0000-0000-0000-000000000000</RequestID>";
    format!("{PROLOG}<Response><Errors>{error}</Errors>{id}</Response>")
}

/// `Error/Code`.
pub(super) fn s3(_: &Refusal<'_>) -> String {
    let error = "<Code>SlowDown</Code><Message>Please reduce your request rate.</Message>";
    format!("{PROLOG}<Error>{error}<RequestId>0000000000000000</RequestId></Error>")
}

const PROLOG: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
