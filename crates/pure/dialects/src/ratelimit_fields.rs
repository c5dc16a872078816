//! `RateLimit` and `RateLimit-Policy` of the IETF draft (draft-ietf-httpapi-ratelimit-headers).

use std::time::Duration;

use http::HeaderMap;

use crate::durations::DURATION_MAX;
use crate::headers::joined;
use crate::observation::{QUOTAS_MAX, QuotaReset, QuotaUnit, VendorQuota, clean};
use crate::structured_fields::{BareItem, ListItem, list};

/// Adds the quotas of both fields: each policy, with what is left of it.
pub(crate) fn read(headers: &HeaderMap, quotas: &mut Vec<VendorQuota>) {
    let first = quotas.len();
    let text = joined(headers, "ratelimit-policy").unwrap_or_default();
    for policy in list_of("ratelimit-policy", &text).iter().filter_map(policy) {
        if quotas.len() < QUOTAS_MAX {
            quotas.push(policy);
        }
    }
    let text = joined(headers, "ratelimit").unwrap_or_default();
    for state in list_of("ratelimit", &text).iter().filter_map(state) {
        // A policy that has its state already is counted for several partitions; the policy is not repeated.
        let known = |quota: &VendorQuota| quota.name == state.name && quota.remaining.is_none();
        match quotas.iter().skip(first).position(known) {
            Some(place) => {
                let quota = &mut quotas[first + place];
                (quota.remaining, quota.reset) = (state.remaining, state.reset);
            }
            None if quotas.len() < QUOTAS_MAX => quotas.push(state),
            None => {}
        }
    }
}

fn list_of<'t>(field: &'static str, text: &'t str) -> Vec<ListItem<'t>> {
    let items = list(text);
    if items.is_none() {
        tracing::debug!(field, value = ?clean(text), "ignored a malformed structured field");
    }
    items.unwrap_or_default()
}

/// `"burst";q=100;w=60`: `q` is required.
fn policy(item: &ListItem<'_>) -> Option<VendorQuota> {
    let unit = match item.parameter("qu") {
        None => QuotaUnit::Requests,
        Some(BareItem::Text(unit) | BareItem::Token(unit)) => match unit.as_str() {
            "requests" => QuotaUnit::Requests,
            "content-bytes" => QuotaUnit::Bytes,
            "concurrent-requests" => QuotaUnit::ConcurrentRequests,
            _ => return None,
        },
        Some(_) => return None,
    };
    let limit = item.number("q").filter(|limit| *limit > 0)?;
    let window = item.number("w").map(Duration::from_secs).filter(|window| *window <= DURATION_MAX);
    Some(VendorQuota { name: Some(name(item)?), unit, limit: Some(limit), window, ..VendorQuota::default() })
}

/// `"default";r=50;t=30`: `r` is required.
fn state(item: &ListItem<'_>) -> Option<VendorQuota> {
    let remaining = Some(item.number("r")?);
    let reset = item.number("t").map(Duration::from_secs).filter(|duration| *duration <= DURATION_MAX);
    let reset = reset.map(QuotaReset::WindowEnds);
    Some(VendorQuota { name: Some(name(item)?), remaining, reset, ..VendorQuota::default() })
}

/// The name of a policy is a quoted string; other types are ignored.
fn name(item: &ListItem<'_>) -> Option<String> {
    match &item.value {
        BareItem::Text(name) => Some(clean(name).unwrap_or_default()),
        _ => None,
    }
}
