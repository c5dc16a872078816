//! Conventions of many vendors, and language models, as a table.

use http::StatusCode;
use tollway_dialects::RefusalKind;

use super::RefusalBody::Json;
use super::{
    QuotaHeaders, QuotaRow, RefusalBody, ResetFormat, VendorDialect, VendorRefusal, WaitHeaders, bodies,
    ratelimit_fields,
};
use crate::Unit;

pub(super) const JSON: &str = "application/json";

/// A status, and nothing else.
pub(super) const PLAIN: VendorDialect = VendorDialect {
    name: "bare",
    about: "429 and nothing else, like Adobe PDF Services",
    read_by: "http",
    refusals: &[],
    fixed: &[],
    quotas: QuotaHeaders::None,
    wait: WaitHeaders::None,
    status: StatusCode::TOO_MANY_REQUESTS,
    refusal: None,
    content_type: JSON,
    body: RefusalBody::Nothing,
    failure: (StatusCode::INTERNAL_SERVER_ERROR, bodies::failure),
    success: |_, content| content,
    counts_output: true,
};

/// A refusal that tells how long to wait.
pub(super) const fn told(kind: RefusalKind, words: &'static str) -> VendorRefusal {
    VendorRefusal { words, kind, tells_wait: true }
}

/// One that does not.
pub(super) const fn untold(kind: RefusalKind, words: &'static str) -> VendorRefusal {
    VendorRefusal { words, kind, tells_wait: false }
}

/// Headers of calls in windows, and of tokens for vendors of language models.
pub(super) const fn row(
    unit: Unit,
    [limit, remaining, reset]: [&'static str; 3],
    format: ResetFormat,
) -> QuotaRow {
    QuotaRow { unit, limit, remaining, used: None, reset, format }
}

/// Anthropic's status for overload, which no registry has.
const OVERLOADED: StatusCode = match StatusCode::from_u16(529) {
    Ok(status) => status,
    Err(_) => StatusCode::SERVICE_UNAVAILABLE,
};

pub(super) const X_RATELIMIT: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

pub(super) static GENERAL: [VendorDialect; 7] = [
    VendorDialect {
        name: "http",
        about: "Retry-After in whole seconds",
        wait: WaitHeaders::Seconds,
        body: Json(bodies::message),
        ..PLAIN
    },
    PLAIN,
    VendorDialect {
        name: "ietf",
        about: "RateLimit and RateLimit-Policy for every quota, problem+json, Retry-After",
        read_by: "ietf",
        quotas: QuotaHeaders::Written(ratelimit_fields::write),
        wait: WaitHeaders::Seconds,
        content_type: "application/problem+json",
        body: Json(bodies::problem),
        ..PLAIN
    },
    VendorDialect {
        name: "x-ratelimit",
        about: "X-RateLimit-Limit, -Remaining and -Reset in seconds, Retry-After",
        read_by: "x-ratelimit",
        quotas: QuotaHeaders::Rows(&[row(Unit::Calls, X_RATELIMIT, ResetFormat::Seconds)]),
        wait: WaitHeaders::Seconds,
        body: Json(bodies::message),
        ..PLAIN
    },
    VendorDialect {
        name: "openai",
        about: "requests and tokens, each with the time until full; Retry-After-Ms; error object",
        read_by: "openai",
        refusals: &[told(RefusalKind::Rate, "429, `Retry-After-Ms`")],
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
        body: Json(bodies::openai),
        ..PLAIN
    },
    VendorDialect {
        name: "anthropic",
        about: "requests and tokens, each with the date at which it is full; Retry-After; a failure is 529, overload",
        read_by: "anthropic",
        refusals: &[
            told(RefusalKind::Rate, "429, `Retry-After`"),
            untold(RefusalKind::Overload, "529, `overloaded_error`"),
        ],
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
        body: Json(bodies::anthropic),
        failure: (OVERLOADED, bodies::anthropic_overload),
        ..PLAIN
    },
    VendorDialect {
        name: "gemini",
        about: "no headers; the body names each quota that refused and a delay, for a day a wrong one",
        read_by: "gemini",
        refusals: &[told(RefusalKind::Rate, "429, `error.details[]` with `QuotaFailure` and `RetryInfo`")],
        body: Json(bodies::gemini),
        counts_output: false,
        ..PLAIN
    },
];
