//! Vendors with headers or errors of their own: code, payments, shops, chats, games.

use super::general::OLDER_RATELIMIT_FIELDS;
use super::{
    A_DAY, ANY, PLAIN, REQUESTS, limit, name, refused, remaining, reset, reset_in, sign, used, used_of_limit,
    wait,
};
use crate::body_quotas;
use crate::dialect::Dialect;
use crate::headers::{HeaderRow, QuotaField, QuotaRows, ValueFormat};
use crate::observation::RefusalKind;
use crate::refusal::RefusalRow;
use crate::response::ResponseField::{Body, Header};
use crate::response::ResponseSign;
use crate::response::TextMatch::{Begins, Is, IsOneOf, Present};
use crate::wait::WaitFormat;

/// Statuses with which GitHub refuses; most 403 are about permissions.
const GITHUB_REFUSES: &[u16] = &[403, 429];

/// GraphQL refuses inside a 200.
const GITHUB_GRAPHQL: ResponseSign =
    sign(ANY, Body("errors.*.type"), IsOneOf(&["RATE_LIMITED", "RATE_LIMIT"]));

/// The secondary limit is only told in the message. The reset is a second early.
pub(super) static GITHUB: Dialect = Dialect {
    names: &["github"],
    detected_by: &[&[("x-github-request-id", "")], &[("x-ratelimit-resource", "")]],
    told_by: &[
        sign(GITHUB_REFUSES, Body("documentation_url"), Begins("https://docs.github.com/")),
        GITHUB_GRAPHQL,
    ],
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
        RefusalRow { sign: GITHUB_GRAPHQL, kind: RefusalKind::Rate },
        refused(
            GITHUB_REFUSES,
            Body("message"),
            Begins("You have exceeded a secondary rate limit"),
            RefusalKind::Rate,
        ),
        refused(
            GITHUB_REFUSES,
            Body("message"),
            Begins("You have triggered an abuse detection mechanism"),
            RefusalKind::Rate,
        ),
        refused(GITHUB_REFUSES, Header("x-ratelimit-remaining"), Is("0"), RefusalKind::Rate),
    ],
    waits: &[wait(Body("message"), WaitFormat::SecondsIf("secondary rate limit", 60))],
    reasons: &[Body("errors.*.type"), Header("x-ratelimit-resource")],
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

/// A lock on an object is refused like a rate, with a code of its own.
const STRIPE_LOCK: ResponseSign = sign(&[429], Body("error.code"), Is("lock_timeout"));

/// No counters and no waits.
pub(super) static STRIPE: Dialect = Dialect {
    names: &["stripe"],
    detected_by: &[&[("stripe-rate-limited-reason", "")], &[("stripe-version", "")]],
    told_by: &[STRIPE_LOCK, sign(&[429], Body("error.code"), Is("rate_limit"))],
    refusals: &[
        refused(
            &[429],
            Header("stripe-rate-limited-reason"),
            IsOneOf(&["global-concurrency", "endpoint-concurrency"]),
            RefusalKind::Concurrency,
        ),
        RefusalRow { sign: STRIPE_LOCK, kind: RefusalKind::Lock },
    ],
    reasons: &[Header("stripe-rate-limited-reason"), Body("error.code")],
    ..PLAIN
};

/// A leaky bucket; its rate depends on the shop's plan.
pub(super) static SHOPIFY: Dialect = Dialect {
    names: &["shopify"],
    detected_by: &[&[("x-shopify-shop-api-call-limit", "/")]],
    quotas: &[QuotaRows { headers: &[used_of_limit("x-shopify-shop-api-call-limit")], ..REQUESTS }],
    ..PLAIN
};

const SHOPIFY_THROTTLED: ResponseSign = sign(ANY, Body("errors.*.extensions.code"), Is("THROTTLED"));

/// Refuses inside a 200. Answers of the REST API have the version too, and the fill level.
pub(super) static SHOPIFY_GRAPHQL: Dialect = Dialect {
    names: &["shopify-graphql"],
    detected_by: &[&[("x-shopify-api-version", "")]],
    told_by: &[SHOPIFY_THROTTLED],
    refusals: &[RefusalRow { sign: SHOPIFY_THROTTLED, kind: RefusalKind::Rate }],
    reasons: &[Body("errors.*.extensions.code")],
    body_quotas: Some(body_quotas::shopify),
    reads_successes: true,
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
    told_by: &[sign(&[429], Body("retry_after"), Present).and(Body("global"), IsOneOf(&["true", "false"]))],
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
