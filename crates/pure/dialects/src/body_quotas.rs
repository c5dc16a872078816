//! Quotas in bodies: Gemini's violations, the metadata of Google's errors, Shopify's cost of a query.

use std::time::Duration;

use serde_json::Value;

use crate::body::text;
use crate::durations::count;
use crate::observation::{DAY, QUOTAS_MAX, QuotaReset, QuotaUnit, VendorQuota, clean};
use crate::response::ParsedResponse;
use crate::times;

/// Adds the quotas of a body. Returns the wait that they imply after a refusal.
pub(crate) type BodyQuotas = fn(&ParsedResponse<'_>, &mut Vec<VendorQuota>) -> Option<Duration>;

/// The members of a body that these functions read.
pub(crate) const MEMBERS: [&str; 2] = ["error", "extensions"];

/// Google's daily quotas end at midnight here.
const GOOGLE_ZONE: &str = "America/Los_Angeles";

/// `error.details[]` of type `QuotaFailure`: every violation is a quota with nothing left.
pub(crate) fn gemini(parsed: &ParsedResponse<'_>, quotas: &mut Vec<VendorQuota>) -> Option<Duration> {
    for violation in parsed.body.find("error.details.*.violations.*") {
        if quotas.len() < QUOTAS_MAX {
            quotas.push(gemini_quota(violation, parsed));
        }
    }
    None
}

fn gemini_quota(violation: &Value, parsed: &ParsedResponse<'_>) -> VendorQuota {
    let said = |key: &str| violation.get(key).and_then(text);
    let (id, metric) = (said("quotaId").unwrap_or_default(), said("quotaMetric").unwrap_or_default());
    let unit = if id.contains("InputToken") || metric.contains("input_token") {
        QuotaUnit::InputTokens
    } else if id.contains("Token") || metric.contains("token") {
        QuotaUnit::Tokens
    } else {
        QuotaUnit::Requests
    };
    exhausted(&id, unit, said("quotaValue").and_then(|value| count(&value)), parsed)
}

/// `error.details[]` of type `ErrorInfo`: its metadata names the quota.
pub(crate) fn google(parsed: &ParsedResponse<'_>, quotas: &mut Vec<VendorQuota>) -> Option<Duration> {
    for metadata in parsed.body.find("error.details.*.metadata") {
        let said = |key: &str| metadata.get(key).and_then(text);
        let Some(id) = said("quota_limit").filter(|_| quotas.len() < QUOTAS_MAX) else { continue };
        let limit = said("quota_limit_value").and_then(|value| count(&value)).filter(|limit| *limit > 0);
        quotas.push(exhausted(&id, QuotaUnit::Requests, limit, parsed));
    }
    None
}

/// A quota of Google's with nothing left. Its name tells its window.
fn exhausted(id: &str, unit: QuotaUnit, limit: Option<u64>, parsed: &ParsedResponse<'_>) -> VendorQuota {
    let window = if id.contains("PerDay") {
        Some(DAY)
    } else {
        id.contains("PerMinute").then_some(Duration::from_secs(60))
    };
    let midnight = || times::until_midnight(GOOGLE_ZONE, parsed.sent?).map(QuotaReset::WindowEnds);
    VendorQuota {
        name: clean(id),
        unit,
        limit,
        window,
        remaining: Some(0),
        reset: window.filter(|window| *window == DAY).and_then(|_| midnight()),
    }
}

/// `extensions.cost`: a bucket of points. A refused query may run when the bucket holds what it asked for.
pub(crate) fn shopify(parsed: &ParsedResponse<'_>, quotas: &mut Vec<VendorQuota>) -> Option<Duration> {
    let number = |path: &str| parsed.body.texts(path).next().and_then(|text| count(&text));
    let limit = number("extensions.cost.throttleStatus.maximumAvailable").filter(|limit| *limit > 0)?;
    let remaining = number("extensions.cost.throttleStatus.currentlyAvailable")?;
    let a_second = number("extensions.cost.throttleStatus.restoreRate").filter(|rate| *rate > 0);
    let refilled = |points: u64| Some(Duration::from_millis(points.checked_mul(1_000)?.div_ceil(a_second?)));
    quotas.push(VendorQuota {
        name: None,
        unit: QuotaUnit::Points,
        limit: Some(limit),
        window: refilled(limit),
        remaining: Some(remaining),
        reset: refilled(limit.saturating_sub(remaining)).map(QuotaReset::BucketFull),
    });
    // A query above the limit is never granted: there is nothing to wait for.
    let requested = number("extensions.cost.requestedQueryCost").filter(|cost| *cost <= limit)?;
    refilled(requested.saturating_sub(remaining)).filter(|wait| !wait.is_zero())
}
