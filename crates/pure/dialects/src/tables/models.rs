//! Vendors of language models.

use super::{PLAIN, REQUESTS, limit, refused, remaining, reset, sign, wait};
use crate::body_quotas;
use crate::dialect::{Dialect, TokenRule};
use crate::headers::{HeaderRow, QuotaField, QuotaRows, ValueFormat};
use crate::observation::{QuotaUnit, RefusalKind};
use crate::refusal::RefusalRow;
use crate::response::ResponseField::Body;
use crate::response::TextMatch::{Begins, Contains, Is, IsOneOf, Present};
use crate::wait::{WaitFormat, WaitRow};

/// A quota whose reset is the time until its bucket is full.
const BUCKET: QuotaRows = QuotaRows { until_full: true, ..REQUESTS };

/// A minute's bucket of Anthropic.
const A_MINUTE: QuotaRows = QuotaRows { window: Some(60), ..BUCKET };

/// The headers of a quota of requests.
const OPENAI_REQUESTS: [HeaderRow; 3] = [
    limit("x-ratelimit-limit-requests"),
    remaining("x-ratelimit-remaining-requests"),
    reset("x-ratelimit-reset-requests"),
];

/// Errors of OpenAI's shape. A quota without credit is no rate, and does not come back by waiting.
const OPENAI_REFUSALS: [RefusalRow; 3] = [
    refused(&[429], Body("error.code"), Is("insufficient_quota"), RefusalKind::NoAccess),
    refused(&[429], Body("error.type"), Is("insufficient_quota"), RefusalKind::NoAccess),
    refused(&[429], Body("error.message"), Contains(" per day"), RefusalKind::DailyQuota),
];

/// The window is not told: a limit of requests is one of a minute or of a day.
pub(super) static OPENAI: Dialect = Dialect {
    names: &["openai", "groq"],
    detected_by: &[
        &[("x-ratelimit-limit-requests", "")],
        &[("x-ratelimit-limit-tokens", "")],
        &[("openai-processing-ms", "")],
    ],
    told_by: &[
        sign(&[429], Body("error.code"), IsOneOf(&["insufficient_quota", "rate_limit_exceeded"])),
        sign(&[429], Body("error.type"), Is("insufficient_quota")),
    ],
    quotas: &[
        QuotaRows { headers: &OPENAI_REQUESTS, ..BUCKET },
        QuotaRows {
            unit: QuotaUnit::Tokens,
            headers: &[
                limit("x-ratelimit-limit-tokens"),
                remaining("x-ratelimit-remaining-tokens"),
                reset("x-ratelimit-reset-tokens"),
            ],
            ..BUCKET
        },
        QuotaRows {
            name: Some("usage_based"),
            unit: QuotaUnit::Tokens,
            headers: &[
                limit("x-ratelimit-limit-tokens_usage_based"),
                remaining("x-ratelimit-remaining-tokens_usage_based"),
                reset("x-ratelimit-reset-tokens_usage_based"),
            ],
            ..BUCKET
        },
    ],
    refusals: &OPENAI_REFUSALS,
    waits: &[wait(Body("error.message"), WaitFormat::Behind("try again in"))],
    reasons: &[Body("error.code"), Body("error.type")],
    ..PLAIN
};

/// Both spellings of the reset: one of them was sent for a while.
pub(super) static AZURE_OPENAI: Dialect = Dialect {
    names: &["azure-openai"],
    detected_by: &[
        &[("apim-request-id", ""), ("x-ratelimit-remaining-tokens", "")],
        &[("apim-request-id", ""), ("x-ratelimit-remaining-requests", "")],
        &[("x-rate-limit-reset-tokens", "")],
    ],
    quotas: &[
        QuotaRows { headers: &OPENAI_REQUESTS, ..REQUESTS },
        QuotaRows {
            unit: QuotaUnit::Tokens,
            headers: &[
                limit("x-ratelimit-limit-tokens"),
                remaining("x-ratelimit-remaining-tokens"),
                reset("x-rate-limit-reset-tokens"),
                reset("x-ratelimit-reset-tokens"),
            ],
            ..REQUESTS
        },
    ],
    refusals: &OPENAI_REFUSALS,
    waits: &[wait(Body("error.message"), WaitFormat::Behind("retry after"))],
    reasons: &[Body("error.code"), Body("error.type")],
    ..PLAIN
};

/// Overload is 529; gateways before it make other statuses of it.
const ANTHROPIC_REFUSES: &[u16] = &[429, 500, 503, 529];

pub(super) static ANTHROPIC: Dialect = Dialect {
    names: &["anthropic"],
    token_rule: TokenRule::WithoutCache,
    detected_by: &[
        &[("anthropic-ratelimit-requests-limit", "")],
        &[("anthropic-ratelimit-tokens-limit", "")],
        &[("anthropic-ratelimit-input-tokens-limit", "")],
        &[("anthropic-ratelimit-unified-status", "")],
        &[("anthropic-organization-id", "")],
    ],
    told_by: &[sign(
        ANTHROPIC_REFUSES,
        Body("error.type"),
        IsOneOf(&["rate_limit_error", "overloaded_error"]),
    )
    .and(Body("type"), Is("error"))],
    quotas: &[
        QuotaRows {
            headers: &[
                limit("anthropic-ratelimit-requests-limit"),
                remaining("anthropic-ratelimit-requests-remaining"),
                reset("anthropic-ratelimit-requests-reset"),
            ],
            ..A_MINUTE
        },
        QuotaRows {
            unit: QuotaUnit::Tokens,
            headers: &[
                limit("anthropic-ratelimit-tokens-limit"),
                remaining("anthropic-ratelimit-tokens-remaining"),
                reset("anthropic-ratelimit-tokens-reset"),
            ],
            ..A_MINUTE
        },
        QuotaRows {
            unit: QuotaUnit::InputTokens,
            headers: &[
                limit("anthropic-ratelimit-input-tokens-limit"),
                remaining("anthropic-ratelimit-input-tokens-remaining"),
                reset("anthropic-ratelimit-input-tokens-reset"),
            ],
            ..A_MINUTE
        },
        QuotaRows {
            unit: QuotaUnit::OutputTokens,
            headers: &[
                limit("anthropic-ratelimit-output-tokens-limit"),
                remaining("anthropic-ratelimit-output-tokens-remaining"),
                reset("anthropic-ratelimit-output-tokens-reset"),
            ],
            ..A_MINUTE
        },
        QuotaRows { name: Some("unified"), unit: QuotaUnit::Tokens, headers: &UNIFIED, ..REQUESTS },
    ],
    refusals: &[
        refused(ANTHROPIC_REFUSES, Body("error.type"), Is("overloaded_error"), RefusalKind::Overload),
        refused(&[429], Body("error.message"), Contains("concurrent"), RefusalKind::Concurrency),
    ],
    reasons: &[Body("error.type")],
    ..PLAIN
};

/// The limit of a subscription: no amounts, only whether it is used up and until when.
const UNIFIED: [HeaderRow; 2] = [
    reset("anthropic-ratelimit-unified-reset"),
    HeaderRow {
        header: "anthropic-ratelimit-unified-status",
        field: QuotaField::Remaining,
        format: ValueFormat::ExhaustedIf("rejected"),
    },
];

/// No headers. A daily refusal comes with the wait of a minute's quota, or of nothing.
pub(super) static GEMINI: Dialect = Dialect {
    names: &["gemini"],
    token_rule: TokenRule::InputOnly,
    told_by: &[
        sign(&[429], Body("error.details.*.violations.*.quotaMetric"), Begins("generativelanguage.")),
        sign(&[429], Body("error.details.*.violations.*.quotaId"), Present),
    ],
    refusals: &[
        refused(&[429], Body("error.details.*.violations.*.quotaValue"), Is("0"), RefusalKind::NoAccess),
        refused(&[429], Body("error.message"), Contains("limit: 0"), RefusalKind::NoAccess),
        refused(
            &[429],
            Body("error.details.*.violations.*.quotaId"),
            Contains("PerDay"),
            RefusalKind::DailyQuota,
        ),
    ],
    waits: &[
        WaitRow {
            field: Body("error.details.*.retryDelay"),
            format: WaitFormat::Duration,
            wrong_if_daily: true,
        },
        WaitRow {
            field: Body("error.message"),
            format: WaitFormat::Behind("retry in"),
            wrong_if_daily: true,
        },
    ],
    reasons: &[Body("error.details.*.violations.*.quotaId"), Body("error.status")],
    body_quotas: Some(body_quotas::gemini),
    ..PLAIN
};
