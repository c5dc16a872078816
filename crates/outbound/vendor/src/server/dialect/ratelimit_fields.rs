//! `RateLimit` and `RateLimit-Policy` of the IETF draft (draft-ietf-httpapi-ratelimit-headers).

use http::HeaderMap;

use super::{set, whole_seconds};
use crate::{Ruling, Unit};

/// The policy that bounds calls at the same time.
const CONCURRENT: &str = "concurrent";

/// Writes all quotas of calls. The draft has no unit for tokens.
pub(super) fn write(ruling: &Ruling, headers: &mut HeaderMap) {
    let (mut policies, mut states) = (Vec::new(), Vec::new());
    for (place, quota) in ruling.quotas.iter().enumerate().filter(|(_, quota)| quota.unit == Unit::Calls) {
        let (name, limit) = (name(place, quota.unit), quota.shape.limit());
        let window = whole_seconds(quota.shape.period());
        policies.push(format!("\"{name}\";q={limit};w={window}"));
        states.push(format!("\"{name}\";r={};t={}", quota.left, whole_seconds(quota.full_in)));
    }
    if let Some((limit, left)) = ruling.concurrent {
        policies.push(format!("\"{CONCURRENT}\";q={limit};qu=\"concurrent-requests\""));
        // Nothing left here would read as the reason of a refusal by tokens, which are not shown.
        if ruling.refused_by().is_none() {
            states.push(format!("\"{CONCURRENT}\";r={left}"));
        }
    }
    if !policies.is_empty() {
        set(headers, "ratelimit-policy", &policies.join(", "));
    }
    if !states.is_empty() {
        set(headers, "ratelimit", &states.join(", "));
    }
}

/// The names of the policies that refused.
pub(super) fn violated(ruling: &Ruling) -> Vec<String> {
    if ruling.is_concurrency() {
        return vec![CONCURRENT.to_owned()];
    }
    let refused = ruling.quotas.iter().enumerate().filter(|(_, quota)| quota.wait.is_some());
    refused.map(|(place, quota)| name(place, quota.unit)).collect()
}

/// `requests-1`: the unit, and its place among all quotas.
fn name(place: usize, unit: Unit) -> String {
    let unit = match unit {
        Unit::Calls => "requests",
        Unit::Tokens => "tokens",
    };
    format!("{unit}-{}", place + 1)
}
