//! The list of all metrics; the export, the documentation and the tests use it.

/// What kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only ever grows, but for a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often something took how long, or there were how many of it.
    Histogram,
}

impl MetricKind {
    /// As Prometheus calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A figure: what it is called and what it means. Its labels are few and fixed; a subject is never one.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What kind of figure.
    pub kind: MetricKind,
    /// What it counts or measures.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// Its name in CloudWatch, where every series costs money; none: it is not sent there. `{Stage}` stands for the value of
    /// the label `stage`.
    pub cloudwatch: Option<&'static str>,
}

impl Metric {
    /// The same, sent to CloudWatch by this name.
    #[must_use]
    pub const fn in_cloudwatch(self, name: &'static str) -> Self {
        Self { cloudwatch: Some(name), ..self }
    }
}

const fn metric(
    name: &'static str,
    kind: MetricKind,
    unit: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric { name, kind, unit, labels, meaning, cloudwatch: None }
}

use MetricKind::{Counter, Gauge, Histogram};

pub(super) static TOKENS_ACQUIRED: Metric = metric(
    "RateLimiterTokensAcquired",
    Counter,
    "units",
    &["policy", "limit"],
    "what granted takes cost, in the unit of each limit",
)
.in_cloudwatch("RateLimiterTokensAcquired");
pub(super) static TOKENS_AVAILABLE: Metric = metric(
    "RateLimiterTokensAvailable",
    Gauge,
    "units",
    &["policy", "limit"],
    "units left for the policy's shared subject; policies with many subjects have no such series",
)
.in_cloudwatch("RateLimiterTokensAvailable");
pub(super) static LIMIT_AMOUNT: Metric = metric(
    "tollway_limit_amount",
    Gauge,
    "units",
    &["policy", "limit"],
    "units that the limit grants in a period, or its slots, as in force: 0 if an operator stopped it; learned rates have no \
     such series",
);
pub(super) static USED_RATIO: Metric = metric(
    "tollway_used_ratio",
    Gauge,
    "",
    &["policy", "limit"],
    "what all processes used of the limit in its running window and what takes of this process were denied in it, divided by \
     what fits; above 1 if takes were denied; of the policy's shared subject",
);
pub(super) static WAITING_CALLERS: Metric = metric(
    "tollway_waiting_callers",
    Gauge,
    "callers",
    &["policy"],
    "callers that wait under the policy for a permit of this process; missing until one has waited",
);
pub(super) static WAITING_SECONDS: Metric = metric(
    "tollway_waiting_seconds",
    Gauge,
    "seconds",
    &["policy"],
    "how long the last of the waiting callers waits, as far as that is known: a new one waits at least as long; missing until \
     one has waited",
);
pub(super) static ACQUISITION_FAILURES: Metric = metric(
    "RateLimiterAcquisitionFailures",
    Counter,
    "takes",
    &["policy", "limit"],
    "denied takes, by the limit that denied them",
)
.in_cloudwatch("RateLimiterAcquisitionFailures");
pub(super) static ACQUISITION_LATENCY: Metric = metric(
    "RateLimiterAcquisitionLatency",
    Histogram,
    "seconds",
    &["policy", "limit"],
    "from sending a take to a store outside the process until its answer; a take shows under every limit of its policy, \
     which are checked together, so limits must not be added up",
)
.in_cloudwatch("RateLimiterAcquisitionLatency");
pub(super) static FALLBACK_ACTIVATED: Metric = metric(
    "RateLimiterFallbackActivated",
    Counter,
    "times",
    &[],
    "how often the breaker opened after failures of the store",
)
.in_cloudwatch("RateLimiterFallbackActivated");
pub(super) static DECISIONS: Metric = metric(
    "tollway_decisions_total",
    Counter,
    "takes",
    &["policy", "outcome"],
    "takes by outcome: granted, denied, or failed because the store failed and the policy says closed",
);
pub(super) static DEGRADED_DECISIONS: Metric = metric(
    "tollway_degraded_decisions_total",
    Counter,
    "takes",
    &[],
    "takes that were decided without the store",
);
pub(super) static WOULD_DENY: Metric = metric(
    "tollway_would_deny_total",
    Counter,
    "takes",
    &["policy"],
    "takes that a shadow policy would have denied",
);
pub(super) static POLICIES_LEFT_OUT: Metric = metric(
    "tollway_metrics_policies_left_out",
    Gauge,
    "policies",
    &[],
    "used policies without series of their own, because 4,096 others have them: they are summed under the policy other",
);
pub(super) static INCIDENTS: Metric = metric(
    "tollway_incidents_total",
    Counter,
    "calls",
    &["policy"],
    "calls that a vendor refused although they had a permit",
)
.in_cloudwatch("RateLimiterVendorRefused");
pub(super) static INCIDENTS_DROPPED: Metric = metric(
    "tollway_incidents_dropped_total",
    Counter,
    "incidents",
    &["sink"],
    "incidents that a sink (file, webhook, sns) could not deliver, or for which its queue had no room",
);
pub(super) static METRICS_DROPPED: Metric = metric(
    "tollway_metrics_dropped_total",
    Counter,
    "figures",
    &["sink"],
    "figures that CloudWatch did not take in time or refused; missing while there are none",
);
pub(super) static PERMITS_LOST: Metric = metric(
    "tollway_permits_lost_total",
    Counter,
    "permits",
    &[],
    "permits whose units could not be given back",
);
pub(super) static NEVER_OVER: Metric = metric(
    "tollway_never_over_violations_total",
    Counter,
    "takes",
    &[],
    "granted takes after which a meter held more than its limit; anything but zero is a bug in tollway",
);
pub(super) static STORE_DEGRADED: Metric =
    metric("tollway_store_degraded", Gauge, "", &[], "1 while decisions are made without the store, else 0")
        .in_cloudwatch("RateLimiterStoreDegraded");
pub(super) static STORE_EVENTS: Metric = metric(
    "tollway_store_events_total",
    Counter,
    "times",
    &["event"],
    "what the store counts of itself: reads, writes, conditional_failures, throttles, retries, decided_while_full and others",
)
.in_cloudwatch("RateLimiterStoreEvents");
pub(super) static STORE_LATENCY: Metric = metric(
    "tollway_store_latency_seconds",
    Histogram,
    "seconds",
    &["operation"],
    "how long single requests to the store took, by what the store calls them: read, write",
)
.in_cloudwatch("RateLimiterStoreLatency");
pub(super) static STORE_MEMORY_USED: Metric = metric(
    "tollway_store_memory_used_ratio",
    Gauge,
    "",
    &[],
    "how much of the memory that it may use the store uses; above 1 it has no room for new subjects",
);
pub(super) static STORE_PER_CALL: Metric = metric(
    "tollway_store_per_call",
    Histogram,
    "times",
    &["event"],
    "how often it happened in one call to the store: conditional_failures, retries",
)
.in_cloudwatch("RateLimiterStorePerCall");
pub(super) static STORE_THROTTLED: Metric = metric(
    "tollway_store_throttled",
    Gauge,
    "",
    &[],
    "1 while the store has been throttling for 30 s and still does, else 0",
)
.in_cloudwatch("RateLimiterStoreThrottled");
pub(super) static ACQUISITION_SLOW: Metric = metric(
    "tollway_acquisition_slow",
    Gauge,
    "",
    &[],
    "1 if the 99th percentile of acquisitions was above 50 ms over the last minute that was judged, else 0",
)
.in_cloudwatch("RateLimiterAcquisitionSlow");
pub(super) static CONFIG_RELOADS: Metric = metric(
    "tollway_config_reloads_total",
    Counter,
    "times",
    &[],
    "how often a changed config file came into force",
);
pub(super) static CONFIG_WRONG: Metric = metric(
    "tollway_config_wrong",
    Gauge,
    "",
    &[],
    "1 while the config file is wrong and the one before it in force, else 0",
);

pub(super) static API_RATE: Metric = metric(
    "tollway_api_rate",
    Gauge,
    "calls a second",
    &["api"],
    "the rate of an api that this process calls, as it last heard from the store",
);
pub(super) static API_TOKENS: Metric = metric(
    "tollway_api_tokens",
    Gauge,
    "calls",
    &["api"],
    "calls of an api that could be made at once under its rate",
);
pub(super) static API_CEILING: Metric = metric(
    "tollway_api_ceiling",
    Gauge,
    "calls a second",
    &["api"],
    "the vendor's limit as it was measured; missing until something was",
);
pub(super) static API_COOLDOWN: Metric = metric(
    "tollway_api_cooldown_seconds",
    Gauge,
    "seconds",
    &["api"],
    "how long the vendor still holds calls back, else 0",
);
pub(super) static API_REFUSALS: Metric = metric(
    "tollway_api_refusals_total",
    Counter,
    "calls",
    &["api", "kind"],
    "calls of this process that the vendor refused: rate, concurrency, daily_quota, overload, no_access, lock",
);

pub(super) static REFUSALS: Metric = metric(
    "tollway_refusals_total",
    Counter,
    "calls",
    &["api", "whose", "reason"],
    "calls of an api that were refused: by us, before they were sent, with the limit that denied them or queue; or by the \
     vendor, with the kind of its refusal or hold",
);

/// All metrics, in export order.
pub static METRICS: [&Metric; 33] = [
    &TOKENS_ACQUIRED,
    &TOKENS_AVAILABLE,
    &LIMIT_AMOUNT,
    &USED_RATIO,
    &WAITING_CALLERS,
    &WAITING_SECONDS,
    &ACQUISITION_FAILURES,
    &ACQUISITION_LATENCY,
    &FALLBACK_ACTIVATED,
    &DECISIONS,
    &DEGRADED_DECISIONS,
    &WOULD_DENY,
    &POLICIES_LEFT_OUT,
    &INCIDENTS,
    &INCIDENTS_DROPPED,
    &METRICS_DROPPED,
    &PERMITS_LOST,
    &NEVER_OVER,
    &STORE_DEGRADED,
    &STORE_EVENTS,
    &STORE_LATENCY,
    &STORE_MEMORY_USED,
    &STORE_PER_CALL,
    &STORE_THROTTLED,
    &ACQUISITION_SLOW,
    &CONFIG_RELOADS,
    &CONFIG_WRONG,
    &API_RATE,
    &API_TOKENS,
    &API_CEILING,
    &API_COOLDOWN,
    &API_REFUSALS,
    &REFUSALS,
];
