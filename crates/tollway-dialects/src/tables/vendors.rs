//! Vendors with headers or errors of their own.

use super::general::OLDER_RATELIMIT_FIELDS;
use super::{
    ANY, PLAIN, REQUESTS, limit, name, refused, remaining, reset, reset_in, used, used_of_limit, wait,
};
use crate::body_quotas;
use crate::dialect::Dialect;
use crate::headers::{HeaderRow, QuotaField, QuotaRows, ValueFormat};
use crate::observation::RefusalKind;
use crate::response::ResponseField::{Body, Header};
use crate::response::TextMatch::{Absent, Contains, Is, Present};
use crate::wait::WaitFormat;

const A_DAY: Option<u64> = Some(86_400);

/// Statuses with which GitHub refuses; most 403 are about permissions.
const GITHUB_REFUSES: &[u16] = &[403, 429];

/// The secondary limit is only told in the message. The reset is a second early.
pub(super) static GITHUB: Dialect = Dialect {
    names: &["github"],
    detected_by: &[&[("x-github-request-id", "")], &[("x-ratelimit-resource", "")]],
    quotas: &[QuotaRows {
        headers: &[
            limit("x-ratelimit-limit"),
            remaining("x-ratelimit-remaining"),
            used("x-ratelimit-used"),
            reset_in("x-ratelimit-reset", ValueFormat::TimePlusSecond),
            name("x-ratelimit-resource"),
        ],
        ..REQUESTS
    }],
    refusals: &[
        refused(ANY, Body("errors.*.type"), Contains("RATE_LIMIT"), RefusalKind::Rate),
        refused(GITHUB_REFUSES, Body("message"), Contains("secondary rate limit"), RefusalKind::Rate),
        refused(GITHUB_REFUSES, Body("message"), Contains("abuse detection"), RefusalKind::Rate),
        refused(GITHUB_REFUSES, Header("x-ratelimit-remaining"), Is("0"), RefusalKind::Rate),
    ],
    waits: &[wait(Body("message"), WaitFormat::SecondsIf("secondary rate limit", 60))],
    reasons: &[Body("errors.*.type"), Header("x-ratelimit-resource")],
    reads_successes: true,
    ..PLAIN
};

/// A hyphen after `rate`; 15 minutes and 24 hours at once.
pub(super) static X: Dialect = Dialect {
    names: &["x", "twitter"],
    detected_by: &[&[("x-rate-limit-limit", "")], &[("x-user-limit-24hour-limit", "")]],
    quotas: &[
        QuotaRows {
            window: Some(900),
            headers: &[
                limit("x-rate-limit-limit"),
                remaining("x-rate-limit-remaining"),
                reset("x-rate-limit-reset"),
            ],
            ..REQUESTS
        },
        QuotaRows {
            name: Some("user-24hour"),
            window: A_DAY,
            headers: &[
                limit("x-user-limit-24hour-limit"),
                remaining("x-user-limit-24hour-remaining"),
                reset("x-user-limit-24hour-reset"),
            ],
            ..REQUESTS
        },
    ],
    ..PLAIN
};

/// No counters. A 429 without a reason is a lock timeout.
pub(super) static STRIPE: Dialect = Dialect {
    names: &["stripe"],
    detected_by: &[&[("stripe-rate-limited-reason", "")], &[("stripe-version", "")]],
    refusals: &[
        refused(
            &[429],
            Header("stripe-rate-limited-reason"),
            Contains("-concurrency"),
            RefusalKind::Concurrency,
        ),
        refused(&[429], Header("stripe-rate-limited-reason"), Present, RefusalKind::Rate),
        refused(&[429], Header("stripe-rate-limited-reason"), Absent, RefusalKind::Lock),
    ],
    reasons: &[Header("stripe-rate-limited-reason"), Body("error.code")],
    ..PLAIN
};

pub(super) static NOTION: Dialect = Dialect {
    names: &["notion"],
    detected_by: &[&[("x-notion-request-id", "")]],
    refusals: &[
        refused(ANY, Body("code"), Is("service_overload"), RefusalKind::Overload),
        refused(ANY, Body("code"), Is("rate_limited"), RefusalKind::Rate),
    ],
    reasons: &[Body("additional_data.rate_limit_reason"), Body("code")],
    ..PLAIN
};

/// A leaky bucket; its rate depends on the shop's plan.
pub(super) static SHOPIFY: Dialect = Dialect {
    names: &["shopify"],
    detected_by: &[&[("x-shopify-shop-api-call-limit", "/")]],
    quotas: &[QuotaRows { headers: &[used_of_limit("x-shopify-shop-api-call-limit")], ..REQUESTS }],
    ..PLAIN
};

/// Refuses inside a 200.
pub(super) static SHOPIFY_GRAPHQL: Dialect = Dialect {
    names: &["shopify-graphql"],
    refusals: &[refused(ANY, Body("errors.*.extensions.code"), Is("THROTTLED"), RefusalKind::Rate)],
    reasons: &[Body("errors.*.extensions.code")],
    body_quotas: Some(body_quotas::shopify),
    reads_successes: true,
    ..PLAIN
};

/// Three independent limits; the reason says which one refused.
pub(super) static ATLASSIAN: Dialect = Dialect {
    names: &["atlassian"],
    detected_by: &[&[("x-ratelimit-nearlimit", "")], &[("ratelimit-reason", "")]],
    quotas: &[QuotaRows {
        headers: &[
            limit("x-ratelimit-limit"),
            remaining("x-ratelimit-remaining"),
            reset("x-ratelimit-reset"),
        ],
        ..REQUESTS
    }],
    reasons: &[Header("ratelimit-reason")],
    ..PLAIN
};

/// The quota's name is the id of a bucket that several routes share. The duration is exact, the time is not.
pub(super) static DISCORD: Dialect = Dialect {
    names: &["discord"],
    detected_by: &[
        &[("x-ratelimit-bucket", "")],
        &[("x-ratelimit-scope", "")],
        &[("x-ratelimit-global", "")],
        &[("x-ratelimit-reset-after", "")],
    ],
    quotas: &[QuotaRows {
        headers: &[
            limit("x-ratelimit-limit"),
            remaining("x-ratelimit-remaining"),
            reset("x-ratelimit-reset"),
            reset("x-ratelimit-reset-after"),
            name("x-ratelimit-bucket"),
        ],
        ..REQUESTS
    }],
    waits: &[wait(Body("retry_after"), WaitFormat::Duration)],
    reasons: &[Header("x-ratelimit-scope")],
    ..PLAIN
};

/// Limits and counts are pairs with the window in seconds, in any order.
pub(super) static RIOT: Dialect = Dialect {
    names: &["riot"],
    detected_by: &[&[("x-app-rate-limit", ":")], &[("x-method-rate-limit", ":")]],
    quotas: &[
        QuotaRows {
            name: Some("app"),
            headers: &[
                pairs("x-app-rate-limit", QuotaField::Limit),
                pairs("x-app-rate-limit-count", QuotaField::Used),
            ],
            ..REQUESTS
        },
        QuotaRows {
            name: Some("method"),
            headers: &[
                pairs("x-method-rate-limit", QuotaField::Limit),
                pairs("x-method-rate-limit-count", QuotaField::Used),
            ],
            ..REQUESTS
        },
    ],
    reasons: &[Header("x-rate-limit-type")],
    ..PLAIN
};

const fn pairs(header: &'static str, field: QuotaField) -> HeaderRow {
    HeaderRow { header, field, format: ValueFormat::Pairs }
}

/// A rolling day, no reset. It refuses with 403.
pub(super) static SALESFORCE: Dialect = Dialect {
    names: &["salesforce"],
    detected_by: &[&[("sforce-limit-info", "/")]],
    quotas: &[QuotaRows {
        name: Some("api-usage"),
        window: A_DAY,
        headers: &[used_of_limit("sforce-limit-info")],
        ..REQUESTS
    }],
    refusals: &[
        refused(&[403], Body("message"), Contains("concurrent"), RefusalKind::Concurrency),
        refused(&[403], Body("errorCode"), Is("REQUEST_LIMIT_EXCEEDED"), RefusalKind::DailyQuota),
    ],
    reasons: &[Body("errorCode")],
    ..PLAIN
};

pub(super) static HUBSPOT: Dialect = Dialect {
    names: &["hubspot"],
    detected_by: &[&[("x-hubspot-ratelimit-daily", "")], &[("x-hubspot-ratelimit-secondly", "")]],
    quotas: &[
        QuotaRows {
            name: Some("daily"),
            window: A_DAY,
            headers: &[limit("x-hubspot-ratelimit-daily"), remaining("x-hubspot-ratelimit-daily-remaining")],
            ..REQUESTS
        },
        QuotaRows {
            name: Some("secondly"),
            window: Some(1),
            headers: &[
                limit("x-hubspot-ratelimit-secondly"),
                remaining("x-hubspot-ratelimit-secondly-remaining"),
            ],
            ..REQUESTS
        },
    ],
    refusals: &[refused(&[429], Body("policyName"), Is("DAILY"), RefusalKind::DailyQuota)],
    reasons: &[Body("policyName")],
    ..PLAIN
};

pub(super) static HELCIM: Dialect = Dialect {
    names: &["helcim"],
    detected_by: &[&[("minute-limit-remaining", "")]],
    quotas: &[
        QuotaRows { window: Some(60), headers: &[remaining("minute-limit-remaining")], ..REQUESTS },
        QuotaRows { window: Some(3_600), headers: &[remaining("hour-limit-remaining")], ..REQUESTS },
    ],
    ..PLAIN
};

/// The older IETF fields with a time, where others send a duration.
pub(super) static GITLAB: Dialect = Dialect {
    names: &["gitlab"],
    detected_by: &[&[("ratelimit-observed", "")], &[("x-gitlab-meta", "")]],
    quotas: &[QuotaRows { headers: &OLDER_RATELIMIT_FIELDS, ..REQUESTS }],
    reasons: &[Header("ratelimit-name")],
    ..PLAIN
};

pub(super) static AKAMAI: Dialect = Dialect {
    names: &["akamai"],
    detected_by: &[&[("x-ratelimit-next", "")]],
    quotas: &[QuotaRows {
        headers: &[limit("x-ratelimit-limit"), remaining("x-ratelimit-remaining"), reset("x-ratelimit-next")],
        ..REQUESTS
    }],
    ..PLAIN
};

/// The reset is a duration in milliseconds, which no rule can tell from seconds.
pub(super) static PRISJAKT: Dialect = Dialect {
    names: &["prisjakt"],
    quotas: &[QuotaRows {
        headers: &[
            limit("x-ratelimit-limit"),
            remaining("x-ratelimit-remaining"),
            reset_in("x-ratelimit-reset", ValueFormat::Milliseconds),
        ],
        ..REQUESTS
    }],
    ..PLAIN
};

/// Used and remaining, without a limit; the reset is a duration in seconds, the counts have a fraction.
pub(super) static REDDIT: Dialect = Dialect {
    names: &["reddit"],
    detected_by: &[&[("x-ratelimit-used", ""), ("x-ratelimit-remaining", ".")]],
    quotas: &[QuotaRows {
        headers: &[used("x-ratelimit-used"), remaining("x-ratelimit-remaining"), reset("x-ratelimit-reset")],
        ..REQUESTS
    }],
    ..PLAIN
};
