//! The counters of single policies, for a page that shows them each second. Reading them is cheap: no lock, no text.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollway_core::{Name, Timestamp};

use super::{PolicyCounts, SubjectsSeen};
use crate::Limiter;

/// The counters of a policy that was used. They go on counting; cheap to clone.
#[derive(Clone)]
pub struct CountedPolicy(Arc<PolicyCounts>);

impl CountedPolicy {
    /// A number that no other counters of this process have.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Its name.
    pub fn policy(&self) -> &str {
        &self.0.policy
    }

    /// Its limits, in the order in which they are counted.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &Name> {
        self.0.limits.iter().map(|(name, _)| name)
    }

    /// Granted takes since the start.
    pub fn granted(&self) -> u64 {
        self.0.grants()
    }

    /// Takes that the limit with this index denied since the start.
    pub fn denied(&self, limit: usize) -> u64 {
        self.0.denials(limit)
    }

    /// Takes that a shadow would have denied since the start.
    pub fn would_deny(&self) -> u64 {
        self.0.would_deny.load(Ordering::Relaxed)
    }

    /// Whether a take named a subject.
    pub fn has_subjects(&self) -> bool {
        self.0.has_subjects.load(Ordering::Relaxed)
    }

    /// Its subjects in the last five minutes; `None` if none are known, or too many other policies have subjects.
    pub fn subjects(&self) -> Option<SubjectsSeen> {
        self.0.subjects.seen()
    }
}

impl Limiter {
    /// The policies that were used, without those that share their counts. Once counted, a policy stays, so the list only
    /// grows: see [`counted_policies_len`](Self::counted_policies_len).
    pub fn counted_policies(&self) -> Vec<CountedPolicy> {
        let Some(metrics) = &self.registry().state().metrics else { return Vec::new() };
        metrics.each().into_iter().map(CountedPolicy).collect()
    }

    /// How many they are.
    pub fn counted_policies_len(&self) -> usize {
        self.registry().state().metrics.as_ref().map_or(0, |metrics| metrics.each_len())
    }

    /// How many more policies were used, and are counted together.
    pub fn policies_counted_together(&self) -> u64 {
        self.registry().state().metrics.as_ref().map_or(0, |metrics| metrics.left_out())
    }

    /// Notes the subjects of takes from now on, or moves the time of the notes on; call it about once a second.
    pub fn watch_subjects(&self, now: Timestamp) {
        if let Some(metrics) = &self.registry().state().metrics {
            metrics.watch.set(Some(now));
        }
    }

    /// Notes no more subjects, and forgets those that were noted.
    pub fn unwatch_subjects(&self) {
        if let Some(metrics) = &self.registry().state().metrics {
            metrics.watch.set(None);
            metrics.each().iter().for_each(|counts| counts.subjects.forget());
        }
    }
}
