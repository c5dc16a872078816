//! The dialects as tables: one row for each header, refusal and wait.
//!
//! - `general`: conventions that many vendors share
//! - `models`: language models
//! - `platforms`: platforms of many services: AWS, Google
//! - `work`: vendors of notes, tickets, customers and messages
//! - `vendors`: the others
//!
//! A new dialect is a `Dialect` in one of these files, with what it has beside [`PLAIN`], and its line in [`DIALECTS`]. Its
//! file in `tests/golden` has a grant, a refusal and a trap, each with what is read of it; a test fails until it is there.

mod general;
mod models;
mod platforms;
mod vendors;
mod work;

use crate::dialect::{Dialect, TokenRule};
use crate::headers::{HeaderRow, QuotaField, QuotaRows, ValueFormat};
use crate::observation::{QuotaUnit, RefusalKind};
use crate::refusal::RefusalRow;
use crate::response::{ParsedResponse, ResponseField, ResponseSign, TextMatch};
use crate::wait::{WaitFormat, WaitRow};

pub(crate) use general::HTTP;

/// All dialects, in the order in which they are detected: those with headers of their own first, the general ones last.
pub(crate) static DIALECTS: [&Dialect; 29] = [
    &models::ANTHROPIC,
    &models::AZURE_OPENAI,
    &models::OPENAI,
    &models::GEMINI,
    &platforms::AWS,
    &platforms::GOOGLE,
    &vendors::GITHUB,
    &vendors::STRIPE,
    &work::NOTION,
    &vendors::SHOPIFY,
    &vendors::SHOPIFY_GRAPHQL,
    &work::ATLASSIAN,
    &vendors::DISCORD,
    &vendors::RIOT,
    &work::SALESFORCE,
    &work::HUBSPOT,
    &vendors::HELCIM,
    &vendors::X,
    &vendors::GITLAB,
    &vendors::AKAMAI,
    &vendors::PRISJAKT,
    &vendors::REDDIT,
    &work::SLACK,
    &work::TWILIO,
    &general::BRAVE,
    &general::WHOOP,
    &general::X_RATELIMIT,
    &general::IETF,
    &HTTP,
];

/// The vendor that the body of a refusal tells. A vendor that is a service of a platform goes before the platform.
pub(crate) fn told_by(parsed: &ParsedResponse<'_>) -> Option<&'static Dialect> {
    DIALECTS.iter().copied().find(|dialect| dialect.told_by.iter().any(|sign| sign.is_in(parsed)))
}

const A_DAY: Option<u64> = Some(86_400);

/// A row of any status, also of a success: vendors that have one refuse in the body alone.
const ANY: &[u16] = &[];

/// A dialect that knows nothing but `Retry-After` and the statuses 429, 503 and 529.
const PLAIN: Dialect = Dialect {
    names: &[],
    detected_by: &[],
    told_by: &[],
    is_general: false,
    quotas: &[],
    ratelimit_fields: false,
    refusals: &[],
    waits: &[],
    reasons: &[],
    body_quotas: None,
    reads_successes: false,
    token_rule: TokenRule::All,
};

/// A quota of requests whose reset is the end of its window.
const REQUESTS: QuotaRows =
    QuotaRows { name: None, unit: QuotaUnit::Requests, window: None, until_full: false, headers: &[] };

const fn limit(header: &'static str) -> HeaderRow {
    HeaderRow { header, field: QuotaField::Limit, format: ValueFormat::Numbers }
}

const fn remaining(header: &'static str) -> HeaderRow {
    HeaderRow { header, field: QuotaField::Remaining, format: ValueFormat::Numbers }
}

const fn used(header: &'static str) -> HeaderRow {
    HeaderRow { header, field: QuotaField::Used, format: ValueFormat::Numbers }
}

const fn used_of_limit(header: &'static str) -> HeaderRow {
    HeaderRow { header, field: QuotaField::Used, format: ValueFormat::UsedOfLimit }
}

const fn reset(header: &'static str) -> HeaderRow {
    reset_in(header, ValueFormat::Time)
}

const fn reset_in(header: &'static str, format: ValueFormat) -> HeaderRow {
    HeaderRow { header, field: QuotaField::Reset, format }
}

const fn name(header: &'static str) -> HeaderRow {
    HeaderRow { header, field: QuotaField::Name, format: ValueFormat::Text }
}

const fn refused(
    statuses: &'static [u16],
    field: ResponseField,
    text: TextMatch,
    kind: RefusalKind,
) -> RefusalRow {
    RefusalRow { sign: ResponseSign::new(statuses, field, text), kind }
}

const fn sign(statuses: &'static [u16], field: ResponseField, text: TextMatch) -> ResponseSign {
    ResponseSign::new(statuses, field, text)
}

const fn wait(field: ResponseField, format: WaitFormat) -> WaitRow {
    WaitRow { field, format, wrong_if_daily: false }
}
