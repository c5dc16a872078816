//! What answers say, in the words of the engine: what is left of limits, reports for the controller, the rate it chooses.

use std::time::Duration;

use smallvec::SmallVec;
use tollway::Span;
use tollway::config::{Api, ApiRate};
use tollway::core::controller::{
    Aimd, AimdSettings, Auto, Controller, Keep, ONE_CALL, Pace, VendorQuota as ReportedQuota,
};
use tollway::core::{Learned, LearnedRate, LimitLeft, Policy, REQUESTS, RateChange, Timestamp};
use tollway_dialects::{Observation, QuotaReset, QuotaUnit, VendorQuota};

use crate::token_quotas::QuotaOfCalls;

/// Windows of a vendor and of a limit that differ by less than this are the same.
const SAME_PERIOD: Duration = Duration::from_secs(1);

/// The quotas of a policy's limits that an answer shows. A quota belongs to the limit with its unit and its window; those
/// without a limit are left to the controller. They are as old as `age`. `in_flight` calls were granted, and the vendor has not
/// counted them yet. `keep` of a quota is not used.
pub(crate) fn limits_left(
    policy: &Policy,
    quotas: &[VendorQuota],
    in_flight: u64,
    age: Span,
    keep: Keep,
) -> SmallVec<[LimitLeft; 2]> {
    let mut left = SmallVec::new();
    for quota in quotas {
        let (Some(remaining), Some(window), Some(QuotaReset::WindowEnds(lasts))) =
            (quota.remaining, quota.window, quota.reset)
        else {
            continue;
        };
        let is_same = |period: Span| Duration::from(period).abs_diff(window) < SAME_PERIOD;
        let found = policy.limits().iter().position(|limit| {
            limit.unit().as_str() == quota.unit.as_str()
                && !limit.is_adaptive()
                && limit.period().is_some_and(is_same)
        });
        if let Some(limit) = found {
            let lasts = lasts.saturating_sub(age.into());
            let uncounted = if quota.unit == QuotaUnit::Requests { in_flight } else { 0 };
            let kept = keep.of(quota.limit.unwrap_or(0));
            let units = remaining.saturating_sub(uncounted).saturating_sub(kept);
            left.push(LimitLeft { limit, units, lasts: lasts.into() });
        }
    }
    left
}

/// A quota of calls as it was seen: with the answer's time and the number of its call's grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenQuota {
    quota: ReportedQuota,
    at: Timestamp,
}

/// The quotas in an answer that bound calls, for the controller: those of requests, and the tightest one of tokens.
pub(crate) fn seen_quotas(
    quotas: &[VendorQuota],
    tokens: Option<QuotaOfCalls>,
    grant: u64,
    at: Timestamp,
) -> Vec<SeenQuota> {
    let of_requests = quotas.iter().filter(|quota| quota.unit == QuotaUnit::Requests);
    let of_requests = of_requests.filter_map(|quota| Some((quota.limit, quota.remaining?, quota.reset)));
    let of_tokens = tokens.map(|quota| (Some(quota.limit), quota.remaining, quota.reset));
    let seen = of_requests.chain(of_tokens).map(|(limit, remaining, reset)| {
        let reset = match reset {
            Some(QuotaReset::WindowEnds(reset)) => Some(reset.into()),
            // Such a quota refills all the time: its fill level is what counts.
            Some(QuotaReset::BucketFull(_)) | None => None,
        };
        SeenQuota { quota: ReportedQuota { limit, remaining, reset, age: Span::ZERO, grant }, at }
    });
    seen.collect()
}

impl SeenQuota {
    pub(crate) fn limit(&self) -> Option<u64> {
        self.quota.limit
    }

    /// As it is reported now.
    pub(crate) fn reported(&self, now: Timestamp) -> ReportedQuota {
        ReportedQuota { age: now.since(self.at), ..self.quota }
    }
}

/// The quota that a refusal names as used up: its window, and its amount if it counts calls.
pub(crate) fn named_quota(observed: &Observation) -> Option<(Span, Option<u64>)> {
    let exhausted = observed.quotas.iter().filter(|quota| quota.is_exhausted());
    let longest = exhausted.max_by_key(|quota| quota.window)?;
    let amount = longest.limit.filter(|_| longest.unit == QuotaUnit::Requests);
    Some((longest.window?.into(), amount))
}

/// The controller of an api's rate, as its config says it starts.
pub(crate) fn configured(api: &Api) -> Option<Controller> {
    match api.rate()? {
        ApiRate::Auto => Some(Controller::Auto(Box::<Auto>::default())),
        ApiRate::By(settings) => {
            let settings = AimdSettings {
                initial_rate: settings.initial().count(),
                min_rate: settings.min().count().max(1),
                max_rate: settings.max().count(),
                increase_step: settings.increase_step().count(),
                decrease_factor: (settings.decrease_factor().count() / 1_000).clamp(1, 1_000),
            };
            Aimd::new(settings).ok().map(Controller::Aimd)
        }
    }
}

/// The controller that the store keeps. One that another version wrote and this one cannot read starts over.
pub(crate) fn stored(controller: &str) -> Option<Controller> {
    serde_json::from_str(controller).ok()
}

/// The vendor's limit as the stored controller has measured it, in millionths of a call a second.
pub(crate) fn ceiling(controller: &str) -> Option<u64> {
    stored(controller)?.ceiling()
}

/// The `cut` under which a call was granted: the store keeps only when the last cut was.
pub(crate) fn cut_of(granted_at: Timestamp, rate: &LearnedRate) -> u64 {
    let older = rate.cut > 0 && granted_at <= rate.cut_at;
    rate.cut.saturating_sub(older.into())
}

/// The rate to write, from what the store knew.
pub(crate) fn rate_change(pace: &Pace, known: &LearnedRate, controller: &Controller) -> RateChange {
    RateChange {
        version: known.version,
        rate: pace.rate,
        burst: (pace.burst / ONE_CALL).max(1),
        cut: pace.cut > known.cut,
        left: pace.cap.map(|cap| (cap.grants, cap.lasts)),
        controller: serde_json::to_string(controller).unwrap_or_default(),
    }
}

/// The cooldown after a refusal that tells no wait, where no controller decides: the time between two calls at the slowest
/// limit of calls, 1 to 60 s.
pub(crate) fn bare_cooldown(policy: &Policy, learned: Option<&Learned>) -> Span {
    let (shortest, longest) = (Span::from_secs(1), Span::from_secs(60));
    if let Some(rate) = learned.and_then(|learned| learned.rate.as_ref()) {
        let between = 1_000_000_000_000_u64.checked_div(rate.rate).unwrap_or(u64::MAX);
        return Span::from_micros(between).clamp(shortest, longest);
    }
    let calls = policy.limits().iter().filter(|limit| limit.unit().as_str() == REQUESTS);
    let between = calls.filter_map(|limit| {
        let micros = limit.period()?.as_micros().checked_div(limit.amount())?;
        Some(Span::from_micros(micros))
    });
    between.max().unwrap_or(shortest).clamp(shortest, longest)
}
