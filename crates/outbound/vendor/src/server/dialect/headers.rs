//! Headers of vendors that tell their quotas in a way of their own.

use http::HeaderMap;
use tollway_core::Span;

use super::{most_restrictive, set, used};
use crate::{QuotaState, Ruling, Unit};

const SECOND: Span = Span::from_secs(1);
const DAY: Span = Span::from_days(1);

/// A quota of calls of a day or longer, or a shorter one.
fn of_calls(ruling: &Ruling, is_daily: bool) -> Option<&QuotaState> {
    most_restrictive(ruling, |quota| quota.unit == Unit::Calls && (quota.shape.period() >= DAY) == is_daily)
}

/// The day, and a second or an interval of another length.
pub(super) fn hubspot(ruling: &Ruling, headers: &mut HeaderMap) {
    let mut tell = |quota: &QuotaState, limit, remaining| {
        set(headers, limit, &quota.shape.limit().to_string());
        set(headers, remaining, &quota.left.to_string());
    };
    if let Some(quota) = of_calls(ruling, true) {
        tell(quota, "x-hubspot-ratelimit-daily", "x-hubspot-ratelimit-daily-remaining");
    }
    match of_calls(ruling, false) {
        Some(quota) if quota.shape.period() == SECOND => {
            tell(quota, "x-hubspot-ratelimit-secondly", "x-hubspot-ratelimit-secondly-remaining");
        }
        Some(quota) => {
            tell(quota, "x-hubspot-ratelimit-max", "x-hubspot-ratelimit-remaining");
            let millis = quota.shape.period().as_micros() / 1_000;
            set(headers, "x-hubspot-ratelimit-interval-milliseconds", &millis.to_string());
        }
        None => {}
    }
}

/// Calls of the day. There is no header without such a quota.
pub(super) fn salesforce(ruling: &Ruling, headers: &mut HeaderMap) {
    if let Some(quota) = of_calls(ruling, true) {
        set(headers, "sforce-limit-info", &format!("api-usage={}/{}", used(quota), quota.shape.limit()));
    }
}

/// Calls that run, with the one that is answered.
pub(super) fn twilio(ruling: &Ruling, headers: &mut HeaderMap) {
    if let Some((limit, left)) = ruling.concurrent {
        set(headers, "twilio-concurrent-requests", &limit.saturating_sub(left).to_string());
    }
}
