//! The dialects as tables: one row for each header, refusal and wait.
//!
//! - `general`: conventions that many vendors share
//! - `models`: language models
//! - `vendors`: the others

mod general;
mod models;
mod vendors;

use crate::dialect::{Dialect, TokenRule};
use crate::headers::{HeaderRow, QuotaField, QuotaRows, ValueFormat};
use crate::observation::{QuotaUnit, RefusalKind};
use crate::refusal::RefusalRow;
use crate::response::{ResponseField, TextMatch};
use crate::wait::{WaitFormat, WaitRow};

pub(crate) use general::HTTP;

/// All dialects, in the order in which they are detected: those with headers of their own first, the general ones last.
pub(crate) static DIALECTS: [&Dialect; 25] = [
    &models::ANTHROPIC,
    &models::AZURE_OPENAI,
    &models::OPENAI,
    &models::GEMINI,
    &vendors::GITHUB,
    &vendors::STRIPE,
    &vendors::NOTION,
    &vendors::SHOPIFY,
    &vendors::SHOPIFY_GRAPHQL,
    &vendors::ATLASSIAN,
    &vendors::DISCORD,
    &vendors::RIOT,
    &vendors::SALESFORCE,
    &vendors::HUBSPOT,
    &vendors::HELCIM,
    &vendors::X,
    &vendors::GITLAB,
    &vendors::AKAMAI,
    &vendors::PRISJAKT,
    &vendors::REDDIT,
    &general::BRAVE,
    &general::WHOOP,
    &general::X_RATELIMIT,
    &general::IETF,
    &HTTP,
];

/// A row of any status.
const ANY: &[u16] = &[];

/// A dialect that knows nothing but `Retry-After` and the statuses 429, 503 and 529.
const PLAIN: Dialect = Dialect {
    names: &[],
    detected_by: &[],
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
    RefusalRow { statuses, field, text, kind }
}

const fn wait(field: ResponseField, format: WaitFormat) -> WaitRow {
    WaitRow { field, format, wrong_if_daily: false }
}
