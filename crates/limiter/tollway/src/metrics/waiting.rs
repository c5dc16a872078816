//! Callers that wait under a policy: how many there are, and how long the last of them waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollway_core::Timestamp;

use crate::take::bound_policy::BoundPolicy;
use crate::{Limiter, PolicyHandle};

/// Times at which callers of one policy are due; as many as the queues of a limiter hold, and about a megabyte. Callers beyond
/// are not counted.
const PLACES_MAX: usize = 65_536;

/// The callers of this process that wait under one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many wait: in this process, or elsewhere for a place that this process booked for them.
    pub callers: u64,
    /// How long the last of them waits, as far as that is known. A new caller of the same subject waits at least as long.
    pub wait: Option<Duration>,
}

/// What is counted of the callers that wait under one policy. Only takes that wait come here.
#[derive(Default)]
pub(crate) struct WaitingCallers {
    /// Callers whose time is not known yet.
    without_time: AtomicU64,
    /// How many callers are due at each time, by the limiter's clock.
    places: Mutex<BTreeMap<Timestamp, u64>>,
    /// Callers so far.
    ever: AtomicU64,
}

impl WaitingCallers {
    /// A place was booked for a caller that does the waiting itself.
    pub(crate) fn booked(&self, due: Timestamp, now: Timestamp) {
        if due > now {
            self.enter(Some(due), now);
        }
    }

    fn enter(&self, due: Option<Timestamp>, now: Timestamp) {
        self.ever.fetch_add(1, Ordering::Relaxed);
        let Some(due) = due else {
            self.without_time.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut places = self.places();
        forget_past(&mut places, now);
        if places.len() < PLACES_MAX || places.contains_key(&due) {
            *places.entry(due).or_default() += 1;
        }
    }

    fn leave(&self, due: Option<Timestamp>) {
        let Some(due) = due else {
            self.without_time.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let mut places = self.places();
        if let Some(callers) = places.get_mut(&due) {
            *callers = callers.saturating_sub(1);
            if *callers == 0 {
                places.remove(&due);
            }
        }
    }

    /// Whether a caller has waited since the start.
    pub(super) fn were_any(&self) -> bool {
        self.ever.load(Ordering::Relaxed) > 0
    }

    pub(super) fn read(&self, now: Timestamp) -> Waiting {
        let mut places = self.places();
        forget_past(&mut places, now);
        let known = places.values().fold(0u64, |sum, callers| sum.saturating_add(*callers));
        let wait = places.last_key_value().map(|(due, _)| due.since(now).into());
        Waiting { callers: known.saturating_add(self.without_time.load(Ordering::Relaxed)), wait }
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<Timestamp, u64>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_past(places: &mut BTreeMap<Timestamp, u64>, now: Timestamp) {
    while places.first_key_value().is_some_and(|(due, _)| *due <= now) {
        places.pop_first();
    }
}

impl Waiting {
    /// Both together: of the same policy before and after a reload.
    pub(super) fn and(self, other: Self) -> Self {
        Self { callers: self.callers.saturating_add(other.callers), wait: self.wait.max(other.wait) }
    }
}

/// A caller that waits, from when this is made until it is dropped.
#[must_use = "the caller is counted until this is dropped"]
pub struct WaitingCaller {
    bound: Arc<BoundPolicy>,
    due: Option<Timestamp>,
}

impl WaitingCaller {
    /// Waits under this policy until `due`, if that is known.
    pub(crate) fn new(bound: &Arc<BoundPolicy>, due: Option<Timestamp>) -> Self {
        if let Some(counts) = bound.counts() {
            counts.waiting.enter(due, bound.state.clock.now());
        }
        Self { bound: Arc::clone(bound), due }
    }
}

impl Drop for WaitingCaller {
    fn drop(&mut self) {
        if let Some(counts) = self.bound.counts() {
            counts.waiting.leave(self.due);
        }
    }
}

impl PolicyHandle {
    /// Counts a caller as waiting under the policy while it lives, for programs that queue calls before they take.
    /// Takes that wait are counted by themselves.
    ///
    /// ```
    /// let limiter = tollway::Limiter::builder().policy("notion", ["3 requests / second"])?.metrics().build();
    /// let waits = limiter.policy("notion")?.count_waiting();
    /// assert_eq!(limiter.waiting("notion").callers, 1);
    /// drop(waits);
    /// assert_eq!(limiter.waiting("notion").callers, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_waiting(&self) -> WaitingCaller {
        WaitingCaller::new(&self.to_bound(), None)
    }
}

impl Limiter {
    /// The callers of this process that wait under a policy. None unless the limiter counts
    /// ([`LimiterBuilder::metrics`](crate::LimiterBuilder::metrics)).
    pub fn waiting(&self, policy: &str) -> Waiting {
        self.waiting_of(|name| name == policy).remove(policy).unwrap_or_default()
    }

    /// The same for every policy under which callers wait now, by name.
    pub fn all_waiting(&self) -> BTreeMap<String, Waiting> {
        self.waiting_of(|_| true)
    }

    fn waiting_of(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Waiting> {
        let mut all: BTreeMap<String, Waiting> = BTreeMap::new();
        let state = self.registry().state();
        let Some(metrics) = &state.metrics else { return all };
        let now = state.clock.now();
        metrics.for_each(|counts| {
            if counts.waiting.were_any() && wanted(&counts.policy) {
                let waiting = counts.waiting.read(now);
                if waiting.callers > 0 {
                    let known = all.entry(counts.policy.clone()).or_default();
                    *known = known.and(waiting);
                }
            }
        });
        all
    }
}
