//! The policies in force, by name, and how they are exchanged while takes are under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tollway_core::{Policy, nearest};

use crate::TakeError;
use crate::bound::{Bound, Shared};

/// The policies in force. Lines are keyed by policy and limit, not by this: exchanging it loses no count.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    policies: ArcSwap<HashMap<String, Arc<Bound>>>,
    /// Counts exchanges, so that a handle sees with one look whether it is out of date.
    generation: AtomicU64,
    /// One exchange at a time: the file's watch and the program may both want one.
    exchanging: Mutex<()>,
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>, policies: impl IntoIterator<Item = Arc<Policy>>) -> Self {
        let registry = Self {
            shared,
            policies: ArcSwap::default(),
            generation: AtomicU64::new(0),
            exchanging: Mutex::new(()),
        };
        registry.replace(policies);
        registry
    }

    /// Puts these policies in force.
    pub(crate) fn replace(&self, policies: impl IntoIterator<Item = Arc<Policy>>) {
        let _one_at_a_time = self.exchanging.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.generation.load(Ordering::Acquire) + 1;
        let bind = |policy: Arc<Policy>| {
            let bound = Bound::new(Arc::clone(&self.shared), Arc::clone(&policy), generation);
            (policy.name().to_string(), Arc::new(bound))
        };
        self.policies.store(Arc::new(policies.into_iter().map(bind).collect()));
        self.generation.store(generation, Ordering::Release);
        // Whoever waits for its turn may have it under the new limits.
        self.shared.queues.notify_all();
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<Bound>, TakeError> {
        let policies = self.policies.load();
        policies.get(name).cloned().ok_or_else(|| {
            let meant = nearest(name, policies.keys().map(String::as_str)).map(str::to_owned);
            TakeError::UnknownPolicy { name: name.chars().take(80).collect(), meant }
        })
    }

    pub(crate) fn policies(&self) -> Vec<Arc<Policy>> {
        let mut policies: Vec<_> =
            self.policies.load().values().map(|bound| Arc::clone(&bound.policy)).collect();
        policies.sort_by(|one, other| one.name().cmp(other.name()));
        policies
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
