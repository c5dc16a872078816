//! Figures of a limiter for monitoring. Off by default: counting would be a noticeable part of a take in process.
//!
//! The way of a figure:
//!
//! 1. A take adds to the counts of its policy (`counts`, `waiting`, `subjects`); calls of vendors and their refusals to those
//!    of their api (`apis`, `refusals`).
//! 2. [`Limiter::samples`](crate::Limiter::samples) (`gather`) makes a [`Sample`] of each figure. What may be sampled is the
//!    `catalogue`, and a sample's place in the export is its metric's place there.
//! 3. The server and the gateway answer `/metrics` with them as [`prometheus_text`] (`admin/answers.rs` of `tollway-server`);
//!    `tollway-notify` sends those to CloudWatch whose metric has a name there.
//!
//! A new metric is an entry of the catalogue, a count, and its line in `gather`. The page of metrics and the generated Grafana
//! dashboard are compared with the catalogue by tests.

mod apis;
mod catalogue;
mod counted;
mod counts;
mod gather;
mod refusals;
mod subjects;
mod text;
mod used_ratio;
mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{Name, Policy};

use crate::{Permit, TakeError, Taken};

pub(crate) use apis::AllApiFigures;
pub use apis::{ApiFigures, NotSent};
pub use catalogue::{METRICS, Metric, MetricKind};
pub use counted::CountedPolicy;
pub(crate) use counts::PolicyCounts;
pub use gather::{Figure, Sample};
pub use refusals::{ApiRefusal, RefusedBy};
use subjects::SubjectWatch;
pub use subjects::{SubjectTakes, SubjectsSeen};
pub use text::{prometheus_text, prometheus_text_full};
pub use waiting::{Waiting, WaitingCaller};

/// How many policies have series of their own: those that were used first. The rest are summed under the policy `other`.
pub const POLICIES_MAX: usize = 4_096;

/// How many of the rest are told apart, to say how many there are: more than a config has, and a few megabytes.
const OTHERS_MAX: usize = 131_072;

/// What policies that callers make are called: their names could be anything, and labels must not.
const OF_CALLERS: &str = "of_callers";

/// What the policies without series of their own are called together.
const OTHERS: &str = "other";

/// All counts of a limiter.
pub(crate) struct Metrics {
    /// Of the policies that were used.
    policies: Mutex<HashMap<Shape, Arc<PolicyCounts>>>,
    /// Of the policies that were used when there was no room for more.
    others: Arc<PolicyCounts>,
    /// Their names, as far as there is room.
    names_of_others: Mutex<HashSet<Name>>,
    of_callers: Arc<PolicyCounts>,
    pub(crate) never_over: AtomicU64,
    watch: Arc<SubjectWatch>,
    /// Figures that CloudWatch did not take.
    dropped: AtomicU64,
}

/// What makes two policies count the same: their name, and what their limits are called and count.
#[derive(PartialEq, Eq, Hash)]
struct Shape {
    policy: Name,
    limits: Vec<(Name, Name)>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let watch = Arc::default();
        let of_callers = Arc::new(PolicyCounts::new(OF_CALLERS, &[], &[], &watch));
        Self {
            policies: Mutex::default(),
            others: Arc::new(PolicyCounts::new(OTHERS, &[], &[], &watch)),
            names_of_others: Mutex::default(),
            of_callers,
            never_over: AtomicU64::new(0),
            watch,
            dropped: AtomicU64::new(0),
        }
    }

    /// The counts of a policy that is used now. They stay when its amounts change.
    pub(crate) fn of(&self, policy: &Policy) -> Arc<PolicyCounts> {
        let limits = policy.limits().iter().map(|limit| (limit.name().clone(), limit.unit().clone()));
        let shape = Shape { policy: policy.name().clone(), limits: limits.collect() };
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        if policies.len() >= POLICIES_MAX && !policies.contains_key(&shape) {
            let mut names = self.names_of_others.lock().unwrap_or_else(PoisonError::into_inner);
            if names.len() < OTHERS_MAX {
                names.insert(policy.name().clone());
            }
            return Arc::clone(&self.others);
        }
        let name = policy.name().as_str();
        let new = || Arc::new(PolicyCounts::new(name, policy.units(), policy.limits(), &self.watch));
        Arc::clone(policies.entry(shape).or_insert_with(new))
    }

    /// The counts of all policies that callers make, together.
    pub(crate) fn of_callers(&self) -> Arc<PolicyCounts> {
        Arc::clone(&self.of_callers)
    }

    /// How many policies share [`OTHERS`].
    fn left_out(&self) -> u64 {
        let names = self.names_of_others.lock().unwrap_or_else(PoisonError::into_inner);
        names.len().try_into().unwrap_or(u64::MAX)
    }

    /// The counts of each policy that has its own.
    fn each(&self) -> Vec<Arc<PolicyCounts>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn each_len(&self) -> usize {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Calls this with the counts of every policy, in no order, without copying the list.
    fn for_each(&self, mut read: impl FnMut(&PolicyCounts)) {
        let policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        policies.values().chain([&self.of_callers, &self.others]).for_each(|counts| read(counts));
    }

    fn all(&self) -> Vec<Arc<PolicyCounts>> {
        let mut all = self.each();
        all.sort_by(|one, other| one.policy.cmp(&other.policy));
        all.extend([&self.of_callers, &self.others].map(Arc::clone));
        all
    }
}

/// Counts what came of a take that left the fast path. A store that did not decide is counted where that happens.
pub(crate) fn count(taken: &Result<Taken<'_>, TakeError>) {
    match taken {
        Ok(Taken::Granted(granted)) => granted.count(),
        Ok(Taken::Denied(denied)) => denied.count(),
        Err(error) => count_error(error),
    }
}

/// The same for a take that waited.
pub(crate) fn count_waited(taken: &Result<Permit, TakeError>) {
    match taken {
        Ok(permit) => permit.count(),
        Err(error) => count_error(error),
    }
}

fn count_error(error: &TakeError) {
    if let TakeError::Denied(denied) = error {
        denied.count();
    }
}
