//! The dialects as a table.

use http::StatusCode;

use super::{QuotaHeaders, QuotaRow, ResetFormat, VendorDialect, WaitHeaders, bodies};
use crate::Unit;

const JSON: &str = "application/json";

/// A status, and nothing else.
const PLAIN: VendorDialect = VendorDialect {
    name: "bare",
    about: "429 and nothing else, like Adobe PDF Services",
    read_by: "http",
    fixed: &[],
    quotas: QuotaHeaders::None,
    wait: WaitHeaders::None,
    status: StatusCode::TOO_MANY_REQUESTS,
    refusal: None,
    content_type: JSON,
    body: bodies::nothing,
    counts_output: true,
};

/// Headers of calls in windows, and of tokens for vendors of language models.
const fn row(unit: Unit, [limit, remaining, reset]: [&'static str; 3], format: ResetFormat) -> QuotaRow {
    QuotaRow { unit, limit, remaining, used: None, reset, format }
}

const X_RATELIMIT: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

pub(super) static DIALECTS: [VendorDialect; 12] = [
    VendorDialect {
        name: "http",
        about: "Retry-After in whole seconds",
        wait: WaitHeaders::Seconds,
        body: bodies::message,
        ..PLAIN
    },
    PLAIN,
    VendorDialect {
        name: "ietf",
        about: "RateLimit and RateLimit-Policy for every quota, problem+json, Retry-After",
        read_by: "ietf",
        quotas: QuotaHeaders::RateLimitFields,
        wait: WaitHeaders::Seconds,
        content_type: "application/problem+json",
        body: bodies::problem,
        ..PLAIN
    },
    VendorDialect {
        name: "x-ratelimit",
        about: "X-RateLimit-Limit, -Remaining and -Reset in seconds, Retry-After",
        read_by: "x-ratelimit",
        quotas: QuotaHeaders::Rows(&[row(Unit::Calls, X_RATELIMIT, ResetFormat::Seconds)]),
        wait: WaitHeaders::Seconds,
        body: bodies::message,
        ..PLAIN
    },
    VendorDialect {
        name: "openai",
        about: "requests and tokens, each with the time until full; Retry-After-Ms; error object",
        read_by: "openai",
        fixed: &[("openai-processing-ms", "12"), ("openai-version", "2020-10-01")],
        quotas: QuotaHeaders::Rows(&[
            row(
                Unit::Calls,
                [
                    "x-ratelimit-limit-requests",
                    "x-ratelimit-remaining-requests",
                    "x-ratelimit-reset-requests",
                ],
                ResetFormat::GoDuration,
            ),
            row(
                Unit::Tokens,
                ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
                ResetFormat::GoDuration,
            ),
        ]),
        wait: WaitHeaders::Milliseconds,
        body: bodies::openai,
        ..PLAIN
    },
    VendorDialect {
        name: "anthropic",
        about: "requests and tokens, each with the date at which it is full; Retry-After; error object",
        read_by: "anthropic",
        fixed: &[("anthropic-organization-id", "00000000-0000-0000-0000-000000000000")],
        quotas: QuotaHeaders::Rows(&[
            row(
                Unit::Calls,
                [
                    "anthropic-ratelimit-requests-limit",
                    "anthropic-ratelimit-requests-remaining",
                    "anthropic-ratelimit-requests-reset",
                ],
                ResetFormat::Date,
            ),
            row(
                Unit::Tokens,
                [
                    "anthropic-ratelimit-tokens-limit",
                    "anthropic-ratelimit-tokens-remaining",
                    "anthropic-ratelimit-tokens-reset",
                ],
                ResetFormat::Date,
            ),
        ]),
        wait: WaitHeaders::Seconds,
        body: bodies::anthropic,
        ..PLAIN
    },
    VendorDialect {
        name: "gemini",
        about: "no headers; the body names each quota that refused and a delay, for a day a wrong one",
        read_by: "gemini",
        body: bodies::gemini,
        counts_output: false,
        ..PLAIN
    },
    VendorDialect {
        name: "github",
        about: "403 with X-RateLimit-* and a time since 1970, else a secondary limit with Retry-After",
        read_by: "github",
        fixed: &[("x-github-request-id", "0000:0000"), ("x-ratelimit-resource", "core")],
        quotas: QuotaHeaders::Rows(&[QuotaRow {
            used: Some("x-ratelimit-used"),
            ..row(Unit::Calls, X_RATELIMIT, ResetFormat::EpochSecondEarly)
        }]),
        wait: WaitHeaders::SecondsIfNotShown,
        status: StatusCode::FORBIDDEN,
        body: bodies::github,
        ..PLAIN
    },
    VendorDialect {
        name: "stripe",
        about: "a reason (rate or concurrency), no wait and no counters",
        read_by: "stripe",
        fixed: &[("stripe-version", "2026-01-28")],
        refusal: Some(("stripe-rate-limited-reason", "global-rate", "endpoint-concurrency")),
        body: bodies::stripe,
        ..PLAIN
    },
    VendorDialect {
        name: "notion",
        about: "Retry-After in whole seconds, error object with a reason",
        read_by: "notion",
        fixed: &[("x-notion-request-id", "00000000-0000-0000-0000-000000000000")],
        wait: WaitHeaders::Seconds,
        body: bodies::notion,
        ..PLAIN
    },
    VendorDialect {
        name: "shopify",
        about: "the fill level of the quota of requests (32/40), Retry-After with a fraction",
        read_by: "shopify",
        quotas: QuotaHeaders::FillLevel("x-shopify-shop-api-call-limit"),
        wait: WaitHeaders::Tenths,
        body: bodies::shopify,
        ..PLAIN
    },
    VendorDialect {
        name: "slack",
        about: "Retry-After in whole seconds, {\"ok\": false, \"error\": \"ratelimited\"}",
        wait: WaitHeaders::Seconds,
        body: bodies::slack,
        ..PLAIN
    },
];
