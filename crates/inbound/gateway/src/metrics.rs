//! What the gateway counts of its calls, by api. The names of apis come from the config, so there are few series.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollway::Span;
use tollway::metrics::{Figure, Metric, MetricKind, Sample};

use crate::accounts::Accounts;

const fn metric(
    name: &'static str,
    kind: MetricKind,
    unit: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric { name, kind, unit, labels, meaning, cloudwatch: None }
}

static CALLS: Metric = metric(
    "tollway_gateway_calls_total",
    MetricKind::Counter,
    "calls",
    &["api", "outcome"],
    "calls of an api through this gateway: answered by the vendor, vendor_refused, refused by the gateway because their time was too late, failed without an answer, or left by their caller before it",
);
static WAITED: Metric = metric(
    "tollway_gateway_wait_seconds_total",
    MetricKind::Counter,
    "seconds",
    &["api"],
    "how long answered calls waited for their turn, with their refused attempts, in all",
);
static WAITING: Metric = metric(
    "tollway_gateway_waiting",
    MetricKind::Gauge,
    "calls",
    &["api"],
    "calls that wait for their turn in this gateway now",
);
static IN_FLIGHT: Metric = metric(
    "tollway_gateway_in_flight",
    MetricKind::Gauge,
    "calls",
    &["api"],
    "calls that were sent to the vendor and have no answer yet",
);

/// What `/metrics` of a gateway has besides the metrics of its limiter and its server, in export order.
pub static GATEWAY_METRICS: [&Metric; 4] = [&CALLS, &WAITED, &WAITING, &IN_FLIGHT];

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered,
    VendorRefused,
    Refused,
    Failed,
    Left,
}

/// The values of the label `outcome`, in the order of the variants.
const OUTCOMES: [&str; 5] = ["answered", "vendor_refused", "refused", "failed", "left"];

/// The counts of one api.
#[derive(Debug, Default)]
struct ApiCounts {
    outcomes: [AtomicU64; OUTCOMES.len()],
    waited_micros: AtomicU64,
    /// Calls that wait or are in flight.
    unanswered: AtomicU64,
}

/// The counts of every api that was called.
#[derive(Debug, Default)]
pub(crate) struct CallCounts(Mutex<BTreeMap<String, Arc<ApiCounts>>>);

impl CallCounts {
    /// A call of this api begins.
    pub(crate) fn begin(&self, api: &str) -> CountedCall {
        let counts = {
            let mut apis = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match apis.get(api) {
                Some(counts) => Arc::clone(counts),
                None => Arc::clone(apis.entry(api.to_owned()).or_default()),
            }
        };
        counts.unanswered.fetch_add(1, Ordering::Relaxed);
        CountedCall { counts, outcome: Outcome::Left }
    }

    /// The current values.
    pub(crate) fn samples(&self, accounts: &Accounts) -> Vec<Sample> {
        let apis: Vec<_> = {
            let apis = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            apis.iter().map(|(api, counts)| (api.clone(), Arc::clone(counts))).collect()
        };
        let in_flight: Vec<u64> = apis.iter().map(|(api, _)| accounts.in_flight(api)).collect();
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut samples = Vec::new();
        let mut push = |metric, api: &str, outcome: Option<&str>, figure| {
            let labels = [api].into_iter().chain(outcome).map(str::to_owned).collect();
            samples.push(Sample { metric, labels, figure });
        };
        for (api, counts) in &apis {
            for (outcome, count) in OUTCOMES.iter().zip(&counts.outcomes) {
                push(&CALLS, api, Some(outcome), Figure::Number(value(count)));
            }
        }
        for (api, counts) in &apis {
            push(&WAITED, api, None, Figure::Millionths(value(&counts.waited_micros)));
        }
        for ((api, counts), in_flight) in apis.iter().zip(&in_flight) {
            let waiting = value(&counts.unanswered).saturating_sub(*in_flight);
            push(&WAITING, api, None, Figure::Number(waiting));
        }
        for ((api, _), in_flight) in apis.iter().zip(in_flight) {
            push(&IN_FLIGHT, api, None, Figure::Number(in_flight));
        }
        samples
    }
}

/// A call between its beginning and its answer. Dropped without an answer, its caller has left.
pub(crate) struct CountedCall {
    counts: Arc<ApiCounts>,
    outcome: Outcome,
}

impl CountedCall {
    pub(crate) fn waited(&self, wait: Span) {
        self.counts.waited_micros.fetch_add(wait.as_micros(), Ordering::Relaxed);
    }

    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.counts.unanswered.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = self.counts.outcomes.get(self.outcome as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
