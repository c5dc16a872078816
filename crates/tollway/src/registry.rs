//! The policies in force, by name, and how they are exchanged while takes are under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tollway_core::{Limit, Policy, Setting, nearest};

use crate::TakeError;
use crate::bound::{Bound, Shared};

/// The policies in force. Lines are keyed by policy and limit, not by this: exchanging it loses no count.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    policies: ArcSwap<HashMap<String, Arc<Bound>>>,
    /// Counts exchanges, so that a handle sees with one look whether it is out of date.
    generation: AtomicU64,
    /// What they are made of. One exchange at a time: the file's watch, the program and the store may all want one.
    source: Mutex<Source>,
}

/// What the policies in force are made of.
#[derive(Default)]
struct Source {
    /// As the file or the program has them.
    given: Vec<Arc<Policy>>,
    /// What was set for their limits since, which beats it.
    settings: Vec<Setting>,
}

impl Registry {
    pub(crate) fn new(shared: Arc<Shared>, policies: impl IntoIterator<Item = Arc<Policy>>) -> Self {
        let registry = Self {
            shared,
            policies: ArcSwap::default(),
            generation: AtomicU64::new(0),
            source: Mutex::default(),
        };
        registry.replace(policies);
        registry
    }

    /// Puts these policies in force.
    pub(crate) fn replace(&self, policies: impl IntoIterator<Item = Arc<Policy>>) {
        let mut source = self.source();
        source.given = policies.into_iter().collect();
        self.put_in_force(&source);
    }

    /// Puts these settings in force.
    pub(crate) fn set(&self, settings: Vec<Setting>) {
        let mut source = self.source();
        if source.settings != settings {
            source.settings = settings;
            self.put_in_force(&source);
        }
    }

    /// What was set for limits, as far as is known here.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.source().settings.clone()
    }

    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_in_force(&self, source: &Source) {
        let generation = self.generation.load(Ordering::Acquire) + 1;
        let bind = |policy: &Arc<Policy>| {
            let policy = with_settings(policy, &source.settings);
            let bound = Bound::new(Arc::clone(&self.shared), Arc::clone(&policy), generation);
            (policy.name().to_string(), Arc::new(bound))
        };
        self.policies.store(Arc::new(source.given.iter().map(bind).collect()));
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

/// The policy with what was set for its limits. A setting that its limit cannot have is left out, with a warning.
fn with_settings(policy: &Arc<Policy>, settings: &[Setting]) -> Arc<Policy> {
    let mine = |setting: &&Setting| setting.policy == *policy.name();
    if !settings.iter().any(|setting| mine(&setting)) {
        return Arc::clone(policy);
    }
    let in_force = |limit: &Limit| {
        let setting = settings.iter().filter(mine).find(|setting| setting.limit == *limit.name());
        let set = setting.and_then(|setting| {
            let set = limit.with_setting(setting);
            set.map_err(|error| tracing::warn!(%error, policy = %policy.name(), limit = %limit.name(), "a set limit is left out")).ok()
        });
        set.unwrap_or_else(|| limit.clone())
    };
    match policy.with_limits(policy.limits().iter().map(in_force).collect()) {
        Ok(policy) => Arc::new(policy),
        Err(error) => {
            tracing::warn!(%error, "set limits are left out");
            Arc::clone(policy)
        }
    }
}
