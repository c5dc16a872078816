//! `keep`: calls stop while what is left of a vendor's quota is the part that people have.

use tollway::Span;
use tollway::core::controller::Keep;
use tollway_dialects::{QuotaReset, QuotaUnit, VendorQuota};

use crate::limiter::ApiState;

/// A quota that is down to its kept part is looked at again after this time at the latest, with a call: its vendor may not
/// say when it resets, or in other units.
const LOOK_AGAIN: Span = Span::from_hours(1);

/// How long calls stop because one of these quotas is down to the part that `keep` leaves to people; `None` if none is. A
/// quota counts if its limit, what is left, and its window or its reset are known. A bucket has neither.
pub(crate) fn kept_hold(quotas: &[VendorQuota], keep: Keep) -> Option<Span> {
    if keep.is_none() {
        return None;
    }
    let reached = quotas.iter().filter(|quota| {
        let (Some(limit), Some(remaining)) = (quota.limit, quota.remaining) else { return false };
        quota.unit != QuotaUnit::ConcurrentRequests && remaining <= keep.of(limit)
    });
    let holds = reached.filter_map(|quota| match quota.reset {
        Some(QuotaReset::WindowEnds(reset)) => Some(Span::from(reset)),
        Some(QuotaReset::BucketFull(_)) => None,
        None => Some(quota.window?.into()),
    });
    holds.max().map(|hold| hold.min(LOOK_AGAIN))
}

impl ApiState {
    /// Stops the calls of this process now, and those of all others with the next report. True if quotas are down to what is
    /// kept.
    pub(crate) fn hold_for_people(&self, quotas: &[VendorQuota]) -> bool {
        let keep = self.api().keep();
        let Some(hold) = kept_hold(quotas, keep) else { return false };
        self.hold_here(hold);
        if self.seen().keep_until(self.now(), hold) {
            tracing::info!(api = %self.name(), %keep, %hold, "what is left of the vendor's quota is kept for people");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn quota(remaining: u64, reset: Option<QuotaReset>, window: Option<Duration>) -> VendorQuota {
        let (limit, remaining) = (Some(100), Some(remaining));
        VendorQuota { limit, remaining, reset, window, ..VendorQuota::default() }
    }

    /// B5: any window counts; what says neither window nor reset may be a bucket, which fills all the time.
    #[test]
    fn any_window_that_is_down_to_its_kept_part_stops_calls() {
        let keep = Keep::percent(10).unwrap();
        let hold = |quota: VendorQuota| kept_hold(&[quota], keep);
        let ends = |seconds| Some(QuotaReset::WindowEnds(Duration::from_secs(seconds)));
        assert_eq!(hold(quota(11, ends(60), None)), None, "one more call");
        assert_eq!(hold(quota(10, ends(60), None)), Some(Span::from_secs(60)));
        assert_eq!(hold(quota(10, ends(60), Some(HOUR))), Some(Span::from_secs(60)));
        assert_eq!(hold(quota(0, ends(80_000), None)), Some(LOOK_AGAIN), "a reset may be in other units");
        assert_eq!(hold(quota(3, None, Some(24 * HOUR))), Some(LOOK_AGAIN), "a day without a reset");
        assert_eq!(hold(quota(3, None, None)), None);
        assert_eq!(hold(quota(3, Some(QuotaReset::BucketFull(HOUR)), Some(HOUR))), None);
        let places = VendorQuota { unit: QuotaUnit::ConcurrentRequests, ..quota(1, ends(60), None) };
        assert_eq!(hold(places), None);
        assert_eq!(kept_hold(&[quota(0, ends(60), None)], Keep::default()), None, "nothing is kept");
    }
}
