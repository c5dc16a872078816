//! Vendors of work: notes, tickets, customers, messages.

use super::{A_DAY, ANY, PLAIN, REQUESTS, limit, refused, remaining, reset, sign, used_of_limit};
use crate::dialect::Dialect;
use crate::headers::{HeaderRow, QuotaField, QuotaRows, ValueFormat};
use crate::observation::RefusalKind;
use crate::refusal::RefusalRow;
use crate::response::ResponseField::{Body, Header};
use crate::response::ResponseSign;
use crate::response::TextMatch::{Begins, Is, IsOneOf, Present};

const NOTION_REFUSES: &[u16] = &[429, 503, 529];

pub(super) static NOTION: Dialect = Dialect {
    names: &["notion"],
    detected_by: &[&[("x-notion-request-id", "")]],
    told_by: &[sign(NOTION_REFUSES, Body("code"), Is("rate_limited")).and(Body("object"), Is("error"))],
    refusals: &[
        refused(NOTION_REFUSES, Body("code"), Is("service_overload"), RefusalKind::Overload),
        refused(NOTION_REFUSES, Body("code"), Is("rate_limited"), RefusalKind::Rate),
    ],
    reasons: &[Body("additional_data.rate_limit_reason"), Body("code")],
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
    told_by: &SALESFORCE_REFUSES,
    refusals: &[
        RefusalRow {
            sign: SALESFORCE_REFUSES[0].and(Body("message"), Begins("Concurrent")),
            kind: RefusalKind::Concurrency,
        },
        RefusalRow {
            sign: SALESFORCE_REFUSES[1].and(Body("Errors.Error.message"), Begins("Concurrent")),
            kind: RefusalKind::Concurrency,
        },
        RefusalRow { sign: SALESFORCE_REFUSES[0], kind: RefusalKind::DailyQuota },
        RefusalRow { sign: SALESFORCE_REFUSES[1], kind: RefusalKind::DailyQuota },
    ],
    reasons: &[Body("errorCode"), Body("Errors.Error.errorCode")],
    ..PLAIN
};

/// One code for the day's calls and for calls at the same time, of which the message begins with the name of the limit:
/// `ConcurrentRequests`, `ConcurrentPerOrgLongTxn`.
const SALESFORCE_REFUSES: [ResponseSign; 2] = [
    sign(&[403], Body("errorCode"), Is("REQUEST_LIMIT_EXCEEDED")),
    sign(&[403], Body("Errors.Error.errorCode"), Is("REQUEST_LIMIT_EXCEEDED")),
];

pub(super) static HUBSPOT: Dialect = Dialect {
    names: &["hubspot"],
    detected_by: &[
        &[("x-hubspot-ratelimit-daily", "")],
        &[("x-hubspot-ratelimit-secondly", "")],
        &[("x-hubspot-ratelimit-max", "")],
        &[("x-hubspot-correlation-id", "")],
    ],
    told_by: &[sign(&[429], Body("errorType"), Is("RATE_LIMIT")).and(Body("policyName"), Present)],
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
        QuotaRows {
            name: Some("interval"),
            headers: &[
                limit("x-hubspot-ratelimit-max"),
                remaining("x-hubspot-ratelimit-remaining"),
                window_in("x-hubspot-ratelimit-interval-milliseconds", ValueFormat::Milliseconds),
            ],
            ..REQUESTS
        },
    ],
    refusals: &[refused(&[429], Body("policyName"), Is("DAILY"), RefusalKind::DailyQuota)],
    reasons: &[Body("policyName")],
    ..PLAIN
};

const fn window_in(header: &'static str, format: ValueFormat) -> HeaderRow {
    HeaderRow { header, field: QuotaField::Window, format }
}

/// 429 with a wait. Its SDKs look into successes too: `ok` is how every answer begins.
const SLACK_REFUSES: ResponseSign =
    sign(ANY, Body("ok"), Is("false")).and(Body("error"), IsOneOf(&["ratelimited", "rate_limited"]));

pub(super) static SLACK: Dialect = Dialect {
    names: &["slack"],
    detected_by: &[&[("x-slack-req-id", "")]],
    told_by: &[SLACK_REFUSES],
    refusals: &[RefusalRow { sign: SLACK_REFUSES, kind: RefusalKind::Rate }],
    reasons: &[Body("error")],
    ..PLAIN
};

/// Its code for too many calls is about calls at the same time.
const TWILIO_REFUSES: [ResponseSign; 2] = [
    sign(&[429], Body("code"), Is("20429")),
    sign(&[429], Body("TwilioResponse.RestException.Code"), Is("20429")),
];

pub(super) static TWILIO: Dialect = Dialect {
    names: &["twilio"],
    detected_by: &[&[("twilio-concurrent-requests", "")], &[("twilio-request-id", "")]],
    told_by: &TWILIO_REFUSES,
    refusals: &[
        RefusalRow { sign: TWILIO_REFUSES[0], kind: RefusalKind::Concurrency },
        RefusalRow { sign: TWILIO_REFUSES[1], kind: RefusalKind::Concurrency },
    ],
    reasons: &[Body("code"), Body("TwilioResponse.RestException.Code")],
    ..PLAIN
};
