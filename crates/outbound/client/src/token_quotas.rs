//! Quotas of tokens in headers, as calls: what a call takes shows in what is left from one answer to the next.

use smallvec::SmallVec;
use tollway::{Span, Timestamp};
use tollway_dialects::{QuotaReset, QuotaUnit, VendorQuota};

/// The tokens of a call count as changed if they differ by more than this part: each change is another limit in calls.
const CHANGED: u64 = 4;
/// The share of a new measurement in the mean.
const WEIGHT: u64 = 4;

/// What calls take of each quota of tokens; as many as there are units of tokens.
#[derive(Debug, Default)]
pub(crate) struct TokenQuotas(SmallVec<[TokenQuota; 3]>);

/// One quota at the newest answer, and what a call takes of it.
#[derive(Debug)]
struct TokenQuota {
    unit: QuotaUnit,
    remaining: u64,
    grant: u64,
    at: Timestamp,
    /// Tokens of a call: the mean, and the last one that was used; 0 while it is unknown.
    mean: u64,
    used: u64,
}

/// A quota of tokens in calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaOfCalls {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: Option<QuotaReset>,
}

impl TokenQuotas {
    /// Takes in an answer. Returns the quota of tokens that allows the fewest calls.
    pub(crate) fn observe(
        &mut self,
        quotas: &[VendorQuota],
        grant: u64,
        at: Timestamp,
    ) -> Option<QuotaOfCalls> {
        let is_tokens =
            |unit| matches!(unit, QuotaUnit::Tokens | QuotaUnit::InputTokens | QuotaUnit::OutputTokens);
        let in_calls = quotas.iter().filter(|quota| is_tokens(quota.unit)).filter_map(|quota| {
            let (limit, remaining) = (quota.limit?, quota.remaining?);
            let call = self.tokens_of_a_call(quota, limit, remaining, grant, at);
            let in_calls = |tokens: u64| tokens.checked_div(call);
            Some(QuotaOfCalls {
                limit: in_calls(limit)?,
                remaining: in_calls(remaining)?,
                reset: quota.reset,
            })
        });
        in_calls.min_by_key(|quota| quota.limit)
    }

    fn tokens_of_a_call(
        &mut self,
        quota: &VendorQuota,
        limit: u64,
        remaining: u64,
        grant: u64,
        at: Timestamp,
    ) -> u64 {
        let place = self.0.iter().position(|known| known.unit == quota.unit);
        let Some(known) = place.and_then(|place| self.0.get_mut(place)) else {
            self.0.push(TokenQuota { unit: quota.unit, remaining, grant, at, mean: 0, used: 0 });
            return 0;
        };
        let calls = grant.saturating_sub(known.grant);
        if calls == 0 {
            return known.used;
        }
        let came_in = inflow(quota.reset, limit.saturating_sub(remaining), at.since(known.at));
        let spent = known.remaining.saturating_add(came_in).saturating_sub(remaining) / calls;
        if spent > 0 {
            let before = if known.mean == 0 { spent } else { known.mean };
            known.mean = (before.saturating_mul(WEIGHT - 1).saturating_add(spent) / WEIGHT).max(1);
            if known.mean.abs_diff(known.used) > known.used / CHANGED {
                known.used = known.mean;
            }
        }
        (known.remaining, known.grant, known.at) = (remaining, grant, at);
        known.used
    }
}

/// What flowed into a bucket that misses so much and says when it is full.
fn inflow(reset: Option<QuotaReset>, missing: u64, passed: Span) -> u64 {
    let Some(QuotaReset::BucketFull(full)) = reset else { return 0 };
    let came_in = u128::from(missing).saturating_mul(u128::from(passed.as_micros()));
    u64::try_from(came_in.checked_div(full.as_micros()).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bucket(remaining: u64, full_in: u64) -> VendorQuota {
        VendorQuota {
            unit: QuotaUnit::Tokens,
            limit: Some(60_000),
            remaining: Some(remaining),
            reset: Some(QuotaReset::BucketFull(Duration::from_secs(full_in))),
            ..VendorQuota::default()
        }
    }

    #[test]
    fn tokens_of_a_call_show_in_what_is_left() {
        let mut quotas = TokenQuotas::default();
        let at = Timestamp::from_secs(1_000);
        assert_eq!(quotas.observe(&[bucket(50_000, 10)], 1, at), None, "one answer says nothing yet");
        // 1,000 a second come in. Two calls of 3,000 tokens were sent within two seconds.
        let seen = quotas.observe(&[bucket(46_000, 14)], 3, at.plus(Span::from_secs(2))).unwrap();
        assert_eq!((seen.limit, seen.remaining), (20, 15));
        // About as many tokens are the same limit in calls.
        let seen = quotas.observe(&[bucket(42_700, 17)], 4, at.plus(Span::from_secs(2))).unwrap();
        assert_eq!((seen.limit, seen.remaining), (20, 14));
    }

    #[test]
    fn quota_that_allows_the_fewest_calls_counts() {
        let mut quotas = TokenQuotas::default();
        let output = |remaining| VendorQuota { unit: QuotaUnit::OutputTokens, ..bucket(remaining, 0) };
        let at = Timestamp::from_secs(1_000);
        quotas.observe(&[bucket(50_000, 0), output(50_000)], 1, at);
        let seen = quotas.observe(&[bucket(49_000, 0), output(44_000)], 2, at).unwrap();
        assert_eq!((seen.limit, seen.remaining), (10, 7));
    }
}
