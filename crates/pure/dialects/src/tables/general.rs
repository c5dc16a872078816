//! Conventions that many vendors share.

use super::{PLAIN, REQUESTS, limit, remaining, reset, used};
use crate::dialect::Dialect;
use crate::headers::{HeaderRow, QuotaRows};
use crate::response::ResponseField::Body;

/// `Retry-After` and statuses. Adobe PDF Services sends the status alone.
pub(crate) static HTTP: Dialect = Dialect { names: &["http", "adobe"], is_general: true, ..PLAIN };

/// The older three fields of the IETF draft. `RateLimit-Reset` is a duration for some and a time for others.
pub(super) const OLDER_RATELIMIT_FIELDS: [HeaderRow; 3] =
    [limit("ratelimit-limit"), remaining("ratelimit-remaining"), reset("ratelimit-reset")];

/// `RateLimit` and `RateLimit-Policy`, or the older three fields if those are not sent.
pub(super) static IETF: Dialect = Dialect {
    names: &["ietf", "cloudflare", "buildkite"],
    is_general: true,
    detected_by: &[
        &[("ratelimit", "")],
        &[("ratelimit-policy", "")],
        &[("ratelimit-limit", "")],
        &[("ratelimit-remaining", "")],
        &[("ratelimit-reset", "")],
    ],
    quotas: &[QuotaRows { headers: &OLDER_RATELIMIT_FIELDS, ..REQUESTS }],
    ratelimit_fields: true,
    reasons: &[Body("violated-policies.*")],
    ..PLAIN
};

/// `X-RateLimit-*` in any notation.
pub(super) static X_RATELIMIT: Dialect = Dialect {
    names: &["x-ratelimit", "vimeo", "lemlist"],
    is_general: true,
    detected_by: &[
        &[("x-ratelimit-limit", "")],
        &[("x-ratelimit-remaining", "")],
        &[("x-ratelimit-reset", "")],
    ],
    quotas: &[QuotaRows {
        headers: &[
            limit("x-ratelimit-limit"),
            remaining("x-ratelimit-remaining"),
            used("x-ratelimit-used"),
            reset("x-ratelimit-reset"),
        ],
        ..REQUESTS
    }],
    ..PLAIN
};

/// Several windows in one header, named by `X-RateLimit-Policy`: `1;w=1, 15000;w=2592000`.
pub(super) static BRAVE: Dialect = Dialect {
    names: &["brave"],
    is_general: true,
    detected_by: &[&[("x-ratelimit-policy", "w=")]],
    quotas: &[QuotaRows {
        headers: &[
            limit("x-ratelimit-policy"),
            limit("x-ratelimit-limit"),
            remaining("x-ratelimit-remaining"),
            reset("x-ratelimit-reset"),
        ],
        ..REQUESTS
    }],
    ..PLAIN
};

/// Several windows in `X-RateLimit-Limit`: `100, 100;window=60, 10000;window=86400`.
pub(super) static WHOOP: Dialect = Dialect {
    names: &["whoop"],
    is_general: true,
    detected_by: &[&[("x-ratelimit-limit", "window=")]],
    quotas: &[QuotaRows {
        headers: &[
            limit("x-ratelimit-limit"),
            remaining("x-ratelimit-remaining"),
            reset("x-ratelimit-reset"),
        ],
        ..REQUESTS
    }],
    ..PLAIN
};
