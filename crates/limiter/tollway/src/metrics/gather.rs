//! All figures of a limiter at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use tollway_core::{Latencies, StoreFigures, Tallies, Timestamp};

use super::apis::VENDORS;
use super::catalogue::{
    ACQUISITION_FAILURES, ACQUISITION_LATENCY, ACQUISITION_SLOW, API_CEILING, API_COOLDOWN, API_RATE,
    API_REFUSALS, API_TOKENS, CONFIG_RELOADS, CONFIG_WRONG, DECISIONS, DEGRADED_DECISIONS,
    FALLBACK_ACTIVATED, INCIDENTS, INCIDENTS_DROPPED, LIMIT_AMOUNT, METRICS_DROPPED, Metric, NEVER_OVER,
    PERMITS_LOST, POLICIES_LEFT_OUT, REFUSALS, STORE_DEGRADED, STORE_EVENTS, STORE_LATENCY,
    STORE_MEMORY_USED, STORE_PER_CALL, STORE_THROTTLED, TOKENS_ACQUIRED, TOKENS_AVAILABLE, USED_RATIO,
    WAITING_CALLERS, WAITING_SECONDS, WOULD_DENY,
};
use super::{Metrics, PolicyCounts};
use crate::Limiter;
use crate::policy::usage::usage_of_shared;

/// One series of a metric at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What it is.
    pub metric: &'static Metric,
    /// Its labels' values, in the order of [`Metric::labels`].
    pub labels: Vec<String>,
    /// What it shows.
    pub figure: Figure,
}

/// What a series shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Of a counter or a gauge.
    Number(u64),
    /// Of a gauge with a fraction, in millionths.
    Millionths(u64),
    /// Of a histogram of seconds.
    Latencies(Box<Latencies>),
    /// Of a histogram of numbers.
    Tallies(Box<Tallies>),
}

impl Limiter {
    /// What was counted so far, in the order of [`METRICS`](super::METRICS); nothing unless the limiter was built to
    /// count ([`LimiterBuilder::metrics`](crate::LimiterBuilder::metrics)).
    ///
    /// A policy has series from its first take on. Queries the store what is left of the policies that have only one subject;
    /// a store that does not answer leaves those figures out.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use tollway::{Limiter, metrics::prometheus_text};
    ///
    /// let limiter = Limiter::builder().policy("adobe", ["200 requests / minute"])?.metrics().build();
    /// assert!(limiter.try_take("adobe").await?.is_granted());
    /// let text = prometheus_text(&limiter.samples().await);
    /// assert!(text.contains("RateLimiterTokensAcquired{policy=\"adobe\",limit=\"requests_per_minute\"} 1"));
    /// assert!(text.contains("RateLimiterTokensAvailable{policy=\"adobe\",limit=\"requests_per_minute\"} 199"));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn samples(&self) -> Vec<Sample> {
        let Some(metrics) = &self.registry().state().metrics else { return Vec::new() };
        let mut samples = SampleSet::default();
        let (mut shared, now) = (BTreeSet::new(), self.registry().state().clock.now());
        for counts in metrics.all() {
            samples.add_policy(&counts);
            samples.add_waiting(&counts, now);
            self.add_amounts(&counts, &mut samples);
            if !counts.limits.is_empty() && counts.is_shared.load(Ordering::Relaxed) {
                shared.insert(counts.policy.clone());
            }
        }
        samples.set(&POLICIES_LEFT_OUT, &[], metrics.left_out());
        self.add_available(&shared, &mut samples).await;
        self.add_state(metrics, &mut samples);
        self.add_apis(&mut samples);
        samples.add_store(self.registry().state().store.figures());
        samples.samples()
    }

    /// Counts figures that a destination of metrics did not take.
    pub fn count_dropped_metrics(&self, figures: u64) {
        if let Some(metrics) = &self.registry().state().metrics {
            metrics.dropped.fetch_add(figures, Ordering::Relaxed);
        }
    }

    async fn add_available(&self, policies: &BTreeSet<String>, samples: &mut SampleSet) {
        // A policy that was reloaded away has nothing to show.
        let in_force: Vec<_> = policies.iter().filter_map(|policy| self.find(policy).ok()).collect();
        // Nor has a store that does not answer.
        let Ok(usages) = usage_of_shared(&in_force).await else { return };
        for (bound, usage) in in_force.iter().zip(usages) {
            for (index, (limit, usage)) in bound.policy.limits().iter().zip(&usage.limits).enumerate() {
                let labels = [bound.policy.name().as_str(), limit.name().as_str()];
                samples.set(&TOKENS_AVAILABLE, &labels, usage.remaining);
                if let Some(ratio) = bound.counts().and_then(|counts| counts.used_ratio(index, limit, usage))
                {
                    samples.put(&USED_RATIO, &labels, Figure::Millionths(ratio));
                }
            }
        }
    }

    /// Of a policy that was used, also by many subjects.
    fn add_amounts(&self, counts: &PolicyCounts, samples: &mut SampleSet) {
        if counts.limits.is_empty() {
            return;
        }
        let Ok(bound) = self.find(&counts.policy) else { return };
        for (index, limit) in bound.policy.limits().iter().enumerate() {
            if !limit.is_adaptive() {
                let amount = if bound.stopped == Some(index) { 0 } else { limit.amount() };
                samples.set(&LIMIT_AMOUNT, &[&counts.policy, limit.name().as_str()], amount);
            }
        }
    }

    fn add_apis(&self, samples: &mut SampleSet) {
        let state = self.registry().state();
        let now = state.clock.now();
        for (api, figures) in state.api_figures.all() {
            let api = api.as_str();
            if let Some(rate) = figures.rate() {
                samples.put(&API_RATE, &[api], Figure::Millionths(rate));
                samples.set(&API_TOKENS, &[api], figures.available());
            }
            if let Some(ceiling) = figures.ceiling() {
                samples.put(&API_CEILING, &[api], Figure::Millionths(ceiling));
            }
            samples.put(&API_COOLDOWN, &[api], Figure::Millionths(figures.held_for(now)));
            for (kind, count) in figures.refusals() {
                samples.set(&API_REFUSALS, &[api, kind], count);
                samples.add(&REFUSALS, &[api, VENDORS, kind], count);
            }
            for (whose, reason, count) in figures.not_sent() {
                samples.add(&REFUSALS, &[api, whose, &reason], count);
            }
        }
    }

    fn add_state(&self, metrics: &Metrics, samples: &mut SampleSet) {
        let status = self.store_status();
        samples.set(&FALLBACK_ACTIVATED, &[], status.fallbacks);
        samples.set(&DEGRADED_DECISIONS, &[], status.degraded_decisions);
        samples.set(&STORE_DEGRADED, &[], status.degraded_since.is_some().into());
        let (alarms, now) = (&self.registry().state().alarms, self.registry().state().clock.now());
        samples.set(&STORE_THROTTLED, &[], alarms.is_throttled(now).into());
        samples.set(&ACQUISITION_SLOW, &[], alarms.is_slow(now).into());
        for (sink, dropped) in self.registry().state().incidents.sinks().dropped() {
            samples.set(&INCIDENTS_DROPPED, &[sink], dropped);
        }
        let dropped = metrics.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            samples.set(&METRICS_DROPPED, &["cloudwatch"], dropped);
        }
        samples.set(&PERMITS_LOST, &[], self.permits_lost());
        samples.set(&NEVER_OVER, &[], metrics.never_over.load(Ordering::Relaxed));
        let reload = self.reload_status();
        samples.set(&CONFIG_RELOADS, &[], reload.reloads);
        samples.set(&CONFIG_WRONG, &[], reload.error.is_some().into());
    }
}

/// Series by metric and labels: a policy whose limits have changed since has one of each all the same.
#[derive(Default)]
struct SampleSet(BTreeMap<(&'static str, Vec<String>), (&'static Metric, Figure)>);

impl SampleSet {
    fn add_policy(&mut self, counts: &PolicyCounts) {
        let policy = counts.policy.as_str();
        let mut denied = 0u64;
        for (index, (limit, unit)) in counts.limits.iter().enumerate() {
            let labels = [policy, limit.as_str()];
            if let Some(unit) = unit {
                self.add(&TOKENS_ACQUIRED, &labels, counts.taken(*unit));
            }
            self.add(&ACQUISITION_FAILURES, &labels, counts.denials(index));
            denied = denied.wrapping_add(counts.denials(index));
        }
        if counts.limits.is_empty() {
            // The limits of policies that share their counts have no exported names.
            denied = (0..tollway_core::bounds::LIMITS_PER_POLICY_MAX)
                .fold(0, |sum, index| sum.wrapping_add(counts.denials(index)));
            if denied == 0 && counts.grants() == 0 && counts.failed.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
        if policy == super::OTHERS {
            self.add(&TOKENS_ACQUIRED, &[policy, policy], counts.all_taken());
            self.add(&ACQUISITION_FAILURES, &[policy, policy], denied);
        }
        self.add(&DECISIONS, &[policy, "granted"], counts.grants());
        self.add(&DECISIONS, &[policy, "denied"], denied);
        self.add(&DECISIONS, &[policy, "failed"], counts.failed.load(Ordering::Relaxed));
        self.add(&WOULD_DENY, &[policy], counts.would_deny.load(Ordering::Relaxed));
        self.add(&INCIDENTS, &[policy], counts.incidents.load(Ordering::Relaxed));
        self.add_acquisition_latency(counts);
    }

    fn add_waiting(&mut self, counts: &PolicyCounts, now: Timestamp) {
        if counts.waiting.were_any() {
            let (waiting, policy) = (counts.waiting.read(now), [counts.policy.as_str()]);
            self.add(&WAITING_CALLERS, &policy, waiting.callers);
            let wait = waiting.wait.unwrap_or_default().as_micros().try_into().unwrap_or(u64::MAX);
            self.put(&WAITING_SECONDS, &policy, Figure::Millionths(wait));
        }
    }

    /// Limits are checked together, so each of them took as long.
    fn add_acquisition_latency(&mut self, counts: &PolicyCounts) {
        let latencies = counts.latency.read();
        let names = counts.limits.iter().map(|(limit, _)| limit.as_str());
        // The limits of policies that share their counts have no exported names.
        let nameless = counts.limits.is_empty().then_some(counts.policy.as_str());
        for limit in names.chain(nameless) {
            self.add_latencies(&ACQUISITION_LATENCY, &[counts.policy.as_str(), limit], latencies.clone());
        }
    }

    fn add_store(&mut self, figures: StoreFigures) {
        for (event, count) in figures.counts {
            self.add(&STORE_EVENTS, &[event], count);
        }
        if let Some(used) = figures.memory_used {
            self.put(&STORE_MEMORY_USED, &[], Figure::Millionths(used));
        }
        for (operation, latencies) in figures.latencies {
            self.add_latencies(&STORE_LATENCY, &[operation], latencies);
        }
        for (event, tallies) in figures.tallies {
            let figure = Figure::Tallies(Box::new(tallies));
            self.0.insert(key(&STORE_PER_CALL, &[event]), (&STORE_PER_CALL, figure));
        }
    }

    fn set(&mut self, metric: &'static Metric, labels: &[&str], number: u64) {
        self.put(metric, labels, Figure::Number(number));
    }

    fn put(&mut self, metric: &'static Metric, labels: &[&str], figure: Figure) {
        self.0.insert(key(metric, labels), (metric, figure));
    }

    fn add(&mut self, metric: &'static Metric, labels: &[&str], number: u64) {
        let (_, figure) = self.0.entry(key(metric, labels)).or_insert((metric, Figure::Number(0)));
        if let Figure::Number(sum) = figure {
            *sum = sum.wrapping_add(number);
        }
    }

    fn add_latencies(&mut self, metric: &'static Metric, labels: &[&str], latencies: Latencies) {
        let new = || (metric, Figure::Latencies(Box::default()));
        if let (_, Figure::Latencies(sum)) = self.0.entry(key(metric, labels)).or_insert_with(new) {
            sum.counts
                .iter_mut()
                .zip(latencies.counts)
                .for_each(|(sum, count)| *sum = sum.wrapping_add(count));
            sum.sum = sum.sum.saturating_add(latencies.sum);
        }
    }

    /// In the catalogue's order.
    fn samples(self) -> Vec<Sample> {
        let mut samples: Vec<Sample> = self
            .0
            .into_iter()
            .map(|((_, labels), (metric, figure))| Sample { metric, labels, figure })
            .collect();
        // Metrics are statics, each at one place: comparing those is cheaper than comparing their texts, 30,000 times.
        let place =
            |sample: &Sample| super::METRICS.iter().position(|metric| std::ptr::eq(*metric, sample.metric));
        samples.sort_by_cached_key(place);
        samples
    }
}

fn key(metric: &'static Metric, labels: &[&str]) -> (&'static str, Vec<String>) {
    (metric.name, labels.iter().map(|label| (*label).to_owned()).collect())
}
