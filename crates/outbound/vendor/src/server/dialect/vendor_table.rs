//! Vendors with a way of their own, as a table.

use http::StatusCode;
use tollway_dialects::RefusalKind;

use super::RefusalBody::{Json, Xml};
use super::table::{PLAIN, X_RATELIMIT, row, told, untold};
use super::{
    QuotaHeaders, QuotaRow, ResetFormat, VendorDialect, WaitHeaders, bodies, headers, platform_bodies,
};
use crate::Unit;

/// Every answer of AWS has the id of its request, under one of two names.
const AWS_REQUEST: &[(&str, &str)] = &[("x-amzn-requestid", "00000000-0000-0000-0000-000000000000")];

const XML: &str = "text/xml;charset=UTF-8";

pub(super) static VENDORS: [VendorDialect; 16] = [
    VendorDialect {
        name: "github",
        about: "403 with X-RateLimit-* and a time since 1970, else a secondary limit with Retry-After",
        read_by: "github",
        refusals: &[told(RefusalKind::Rate, "403, `X-RateLimit-Remaining: 0`")],
        fixed: &[("x-github-request-id", "0000:0000"), ("x-ratelimit-resource", "core")],
        quotas: QuotaHeaders::Rows(&[QuotaRow {
            used: Some("x-ratelimit-used"),
            ..row(Unit::Calls, X_RATELIMIT, ResetFormat::EpochSecondEarly)
        }]),
        wait: WaitHeaders::SecondsIfNotShown,
        status: StatusCode::FORBIDDEN,
        body: Json(bodies::github),
        ..PLAIN
    },
    VendorDialect {
        name: "stripe",
        about: "a reason (rate or concurrency), no wait and no counters",
        read_by: "stripe",
        refusals: &[
            untold(RefusalKind::Rate, "429, `error.code: rate_limit`"),
            untold(RefusalKind::Concurrency, "429, `Stripe-Rate-Limited-Reason: global-concurrency`"),
        ],
        fixed: &[("stripe-version", "2026-01-28")],
        refusal: Some(("stripe-rate-limited-reason", "global-rate", "global-concurrency")),
        body: Json(bodies::stripe),
        ..PLAIN
    },
    VendorDialect {
        name: "notion",
        about: "Retry-After in whole seconds, error object with a reason",
        read_by: "notion",
        refusals: &[told(RefusalKind::Rate, "429, `code: rate_limited`")],
        fixed: &[("x-notion-request-id", "00000000-0000-0000-0000-000000000000")],
        wait: WaitHeaders::Seconds,
        body: Json(bodies::notion),
        ..PLAIN
    },
    VendorDialect {
        name: "shopify",
        about: "the fill level of the quota of requests (32/40), Retry-After with a fraction",
        read_by: "shopify",
        quotas: QuotaHeaders::FillLevel("x-shopify-shop-api-call-limit"),
        wait: WaitHeaders::Tenths,
        body: Json(bodies::shopify),
        ..PLAIN
    },
    VendorDialect {
        name: "slack",
        read_by: "slack",
        refusals: &[told(RefusalKind::Rate, "429, `ok: false`, `error: ratelimited`")],
        fixed: &[("x-slack-req-id", "00000000000000000000000000000000")],
        about: "Retry-After in whole seconds, {\"ok\": false, \"error\": \"ratelimited\"}",
        wait: WaitHeaders::Seconds,
        body: Json(bodies::slack),
        ..PLAIN
    },
    VendorDialect {
        name: "shopify-graphql",
        about: "THROTTLED inside a 200; every answer tells points left and the rate at which they come back",
        read_by: "shopify-graphql",
        refusals: &[told(RefusalKind::Rate, "200, `errors[].extensions.code: THROTTLED`")],
        fixed: &[("x-shopify-api-version", "2026-01")],
        status: StatusCode::OK,
        body: Json(bodies::shopify_throttled),
        success: bodies::shopify_success,
        ..PLAIN
    },
    VendorDialect {
        name: "hubspot",
        about: "limit and remaining of the day and of a second or an interval; the body names the policy; no wait",
        read_by: "hubspot",
        refusals: &[untold(RefusalKind::Rate, "429, `errorType: RATE_LIMIT`, headers of day and interval")],
        quotas: QuotaHeaders::Written(headers::hubspot),
        body: Json(bodies::hubspot),
        ..PLAIN
    },
    VendorDialect {
        name: "salesforce",
        about: "Sforce-Limit-Info for a day; 403 with one code for the day and for calls at the same time",
        read_by: "salesforce",
        refusals: &[
            untold(RefusalKind::DailyQuota, "403, `errorCode: REQUEST_LIMIT_EXCEEDED`"),
            untold(RefusalKind::Concurrency, "403, the same code, `ConcurrentPerOrgLongTxn`"),
        ],
        quotas: QuotaHeaders::Written(headers::salesforce),
        status: StatusCode::FORBIDDEN,
        body: Json(bodies::salesforce),
        ..PLAIN
    },
    VendorDialect {
        name: "twilio",
        about: "code 20429, which means calls at the same time; no wait and no counters",
        read_by: "twilio",
        refusals: &[untold(RefusalKind::Concurrency, "429, `code: 20429`")],
        fixed: &[("twilio-request-id", "RQ00000000000000000000000000000000")],
        quotas: QuotaHeaders::Written(headers::twilio),
        body: Json(bodies::twilio),
        ..PLAIN
    },
    VendorDialect {
        name: "google",
        about: "403 with rateLimitExceeded or dailyLimitExceeded in the body; no headers and no wait",
        read_by: "google",
        refusals: &[untold(RefusalKind::Rate, "403, `error.errors[].reason: rateLimitExceeded`")],
        status: StatusCode::FORBIDDEN,
        body: Json(platform_bodies::google),
        ..PLAIN
    },
    VendorDialect {
        name: "aws-json",
        about: "400 with __type ThrottlingException, as most JSON services of AWS",
        read_by: "aws",
        refusals: &[untold(RefusalKind::Rate, "400, `__type: ThrottlingException`")],
        fixed: AWS_REQUEST,
        status: StatusCode::BAD_REQUEST,
        content_type: "application/x-amz-json-1.1",
        body: Json(platform_bodies::aws_json),
        ..PLAIN
    },
    VendorDialect {
        name: "dynamodb",
        about: "400 with __type ProvisionedThroughputExceededException",
        read_by: "aws",
        refusals: &[untold(RefusalKind::Rate, "400, `__type: ...#ProvisionedThroughputExceededException`")],
        fixed: AWS_REQUEST,
        status: StatusCode::BAD_REQUEST,
        content_type: "application/x-amz-json-1.0",
        body: Json(platform_bodies::dynamodb),
        ..PLAIN
    },
    VendorDialect {
        name: "lambda",
        about: "429 with X-Amzn-ErrorType, and a reason: rate or concurrency",
        read_by: "aws",
        refusals: &[
            untold(RefusalKind::Rate, "429, `X-Amzn-ErrorType: TooManyRequestsException`"),
            untold(RefusalKind::Concurrency, "429, `Reason: ConcurrentInvocationLimitExceeded`"),
        ],
        fixed: AWS_REQUEST,
        refusal: Some(("x-amzn-errortype", "TooManyRequestsException", "TooManyRequestsException")),
        body: Json(platform_bodies::lambda),
        ..PLAIN
    },
    VendorDialect {
        name: "aws-query",
        about: "400 with XML, ErrorResponse/Error/Code Throttling, as IAM and CloudFormation",
        read_by: "aws",
        refusals: &[untold(RefusalKind::Rate, "400, `ErrorResponse/Error/Code` is `Throttling`")],
        fixed: AWS_REQUEST,
        status: StatusCode::BAD_REQUEST,
        content_type: "text/xml",
        body: Xml(platform_bodies::aws_query),
        ..PLAIN
    },
    VendorDialect {
        name: "ec2",
        about: "503 with XML, Response/Errors/Error/Code RequestLimitExceeded",
        read_by: "aws",
        refusals: &[untold(RefusalKind::Rate, "503, `Response/Errors/Error/Code` is `RequestLimitExceeded`")],
        fixed: AWS_REQUEST,
        status: StatusCode::SERVICE_UNAVAILABLE,
        content_type: XML,
        body: Xml(platform_bodies::ec2),
        ..PLAIN
    },
    VendorDialect {
        name: "s3",
        about: "503 with XML, Error/Code SlowDown",
        read_by: "aws",
        refusals: &[untold(RefusalKind::Rate, "503, `Error/Code` is `SlowDown`")],
        fixed: &[("x-amz-request-id", "0000000000000000")],
        status: StatusCode::SERVICE_UNAVAILABLE,
        content_type: "application/xml",
        body: Xml(platform_bodies::s3),
        ..PLAIN
    },
];
