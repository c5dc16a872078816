//! Connection counters, by listener.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollway::Limiter;
use tollway::metrics::{Figure, Metric, Sample};

use crate::ListenerKind;
use crate::metrics::{
    CHARGES_DENIED, CONNECTIONS_CUT_OFF, CONNECTIONS_OPEN, CONNECTIONS_TURNED_AWAY, CONNECTIONS_WAITED,
    NEW_SUBJECTS_BOUNDED, WRONG_TOKENS,
};

/// The counts of every listener.
#[derive(Default)]
pub(crate) struct Counts {
    decisions: ListenerCounts,
    administration: ListenerCounts,
    grpc: ListenerCounts,
    resp: ListenerCounts,
    charges_denied: Denials,
}

/// Takes that were denied because too many charges were in flight.
#[derive(Default)]
struct Denials {
    count: AtomicU64,
    warned_at: Mutex<Option<Instant>>,
}

/// How often such denials are logged.
const WARNED_EVERY: Duration = Duration::from_secs(60);

/// The counts of one listener.
#[derive(Default)]
pub(crate) struct ListenerCounts {
    open: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) cut_off: AtomicU64,
    pub(crate) wrong_tokens: AtomicU64,
}

/// A metric and the count it shows.
type MetricCount = (&'static Metric, fn(&ListenerCounts) -> &AtomicU64);

/// A connection that counts as open until it is dropped.
pub(crate) struct Open(Arc<Counts>, ListenerKind);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.at(self.1).open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    pub(crate) fn at(&self, kind: ListenerKind) -> &ListenerCounts {
        match kind {
            ListenerKind::Decisions | ListenerKind::Gateway => &self.decisions,
            ListenerKind::Administration | ListenerKind::Program => &self.administration,
            ListenerKind::Grpc => &self.grpc,
            ListenerKind::Resp => &self.resp,
        }
    }

    pub(crate) fn open(self: &Arc<Self>, kind: ListenerKind) -> Open {
        self.at(kind).open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self), kind)
    }

    /// A take was denied because too many charges were in flight. Logged once a minute, and raises the limiter's alarm.
    pub(crate) fn charge_denied(&self, limiter: &Limiter) {
        count(&self.charges_denied.count);
        limiter.note_charges_limited();
        let mut warned_at = self.charges_denied.warned_at.lock().unwrap_or_else(PoisonError::into_inner);
        if warned_at.is_none_or(|at| at.elapsed() >= WARNED_EVERY) {
            *warned_at = Some(Instant::now());
            tracing::warn!(
                event = "RateLimiterTooManyCharges",
                "more takes are in flight than the store can answer in time; more are denied for a second"
            );
        }
    }

    /// How many takes were denied because too many charges were in flight, and how many could make no accounts.
    pub(crate) fn bounded_samples(&self, new_subjects: &AtomicU64) -> [Sample; 2] {
        let sample = |metric, count: &AtomicU64| Sample {
            metric,
            labels: Vec::new(),
            figure: Figure::Number(count.load(Ordering::Relaxed)),
        };
        [sample(&CHARGES_DENIED, &self.charges_denied.count), sample(&NEW_SUBJECTS_BOUNDED, new_subjects)]
    }

    /// The current values. Listeners that are not configured have series, too.
    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample> {
        let kinds = [
            ("decisions", &self.decisions),
            ("grpc", &self.grpc),
            ("resp", &self.resp),
            ("administration", &self.administration),
        ];
        let figures: [MetricCount; 5] = [
            (&CONNECTIONS_OPEN, |counts| &counts.open),
            (&CONNECTIONS_WAITED, |counts| &counts.waited),
            (&CONNECTIONS_TURNED_AWAY, |counts| &counts.turned_away),
            (&CONNECTIONS_CUT_OFF, |counts| &counts.cut_off),
            (&WRONG_TOKENS, |counts| &counts.wrong_tokens),
        ];
        figures.into_iter().flat_map(move |(metric, count)| {
            kinds.map(|(kind, counts)| {
                let figure = Figure::Number(count(counts).load(Ordering::Relaxed));
                Sample { metric, labels: vec![kind.to_owned()], figure }
            })
        })
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
