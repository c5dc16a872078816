//! The policies in force, by name, and how they are exchanged while takes are under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tollway_core::{Limit, LimitError, Name, Policy, Setting, Timestamp, nearest};

use crate::TakeError;
use crate::bound_policy::BoundPolicy;
use crate::state::LimiterState;

/// The policies in force. Lines are keyed by policy and limit, not by this: exchanging it loses no count.
pub(crate) struct Registry {
    state: Arc<LimiterState>,
    policies: ArcSwap<HashMap<String, Arc<BoundPolicy>>>,
    /// Counts exchanges, so that a handle sees with one look whether it is out of date.
    generation: AtomicU64,
    /// What they are made of. One exchange at a time: the file's watch, the program and the store may all want one.
    origins: Mutex<Origins>,
}

/// What the policies in force are made of.
#[derive(Default)]
struct Origins {
    /// As the file or the program has them.
    given: Vec<Arc<Policy>>,
    /// What sources say of their limits, which beats it.
    sourced: HashMap<Name, Vec<(Name, u64)>>,
    /// What was set for their limits in the store, which beats both.
    settings: Vec<Setting>,
}

impl Registry {
    /// Puts these policies in force, and makes them known to the state they share.
    pub(crate) fn start(
        state: Arc<LimiterState>,
        policies: impl IntoIterator<Item = Arc<Policy>>,
    ) -> Arc<Self> {
        let registry = Arc::new(Self {
            state,
            policies: ArcSwap::default(),
            generation: AtomicU64::new(0),
            origins: Mutex::default(),
        });
        // A state is made for one registry, so this is the first.
        let _ = registry.state.registry.set(Arc::downgrade(&registry));
        registry.replace(policies);
        registry
    }

    /// Puts these policies in force.
    pub(crate) fn replace(&self, policies: impl IntoIterator<Item = Arc<Policy>>) {
        let mut origins = self.origins();
        origins.given = policies.into_iter().collect();
        self.put_in_force(&origins);
    }

    /// Puts these settings in force.
    pub(crate) fn set(&self, settings: Vec<Setting>) {
        let mut origins = self.origins();
        if origins.settings != settings {
            origins.settings = settings;
            self.put_in_force(&origins);
        }
    }

    /// Puts in force what a source says of a policy's limits: all there is, by limit.
    pub(crate) fn set_sourced(&self, policy: &Name, amounts: &[(Name, u64)]) {
        let mut origins = self.origins();
        if origins.sourced.get(policy).map_or(&[][..], Vec::as_slice) != amounts {
            origins.sourced.insert(policy.clone(), amounts.to_vec());
            self.put_in_force(&origins);
        }
    }

    /// A policy as the file or the program has it.
    pub(crate) fn given(&self, policy: &Name) -> Option<Arc<Policy>> {
        self.origins().given.iter().find(|given| given.name() == policy).cloned()
    }

    /// What was set for limits, as far as is known here.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.origins().settings.clone()
    }

    /// When the amount of a limit in force was set in the store, if it was.
    pub(crate) fn set_at(&self, policy: &str, limit: &str) -> Option<Timestamp> {
        let origins = self.origins();
        let given = origins.given.iter().find(|given| given.name().as_str() == policy)?;
        let given = given.limits().iter().find(|given| given.name().as_str() == limit)?;
        let of_this =
            |setting: &&Setting| setting.policy.as_str() == policy && setting.limit.as_str() == limit;
        let setting = origins.settings.iter().find(of_this)?;
        given.with_setting(setting).is_ok().then_some(setting.set_at)
    }

    fn origins(&self) -> MutexGuard<'_, Origins> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_in_force(&self, origins: &Origins) {
        let generation = self.generation.load(Ordering::Acquire) + 1;
        let bind = |policy: &Arc<Policy>| {
            let policy = origins.in_force(policy);
            let bound = BoundPolicy::new(Arc::clone(&self.state), Arc::clone(&policy), generation);
            (policy.name().to_string(), Arc::new(bound))
        };
        self.policies.store(Arc::new(origins.given.iter().map(bind).collect()));
        self.generation.store(generation, Ordering::Release);
        // Whoever waits for its turn may have it under the new limits.
        self.state.queues.notify_all();
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<BoundPolicy>, TakeError> {
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

    pub(crate) fn state(&self) -> &Arc<LimiterState> {
        &self.state
    }
}

impl Origins {
    /// The policy with what sources say and what was set for its limits, in this order. What a limit cannot have is left
    /// out, with a warning.
    fn in_force(&self, policy: &Arc<Policy>) -> Arc<Policy> {
        let sourced = self.sourced.get(policy.name()).map_or(&[][..], Vec::as_slice);
        let settings: Vec<&Setting> =
            self.settings.iter().filter(|setting| setting.policy == *policy.name()).collect();
        if sourced.is_empty() && settings.is_empty() {
            return Arc::clone(policy);
        }
        let limits = policy.limits().iter().map(|limit| {
            let amount = sourced.iter().find(|(name, _)| name == limit.name());
            let with_amount = amount.map(|(_, amount)| limit.with_amount(*amount));
            let limit = changed(policy, limit, with_amount);
            let setting = settings.iter().find(|setting| setting.limit == *limit.name());
            changed(policy, &limit, setting.map(|setting| limit.with_setting(setting)))
        });
        match policy.with_limits(limits.collect()) {
            Ok(policy) => Arc::new(policy),
            Err(error) => {
                tracing::warn!(%error, "limits that are data are left out");
                Arc::clone(policy)
            }
        }
    }
}

/// The limit as it was changed, or as it is where it was not or could not be.
fn changed(policy: &Policy, limit: &Limit, to: Option<Result<Limit, LimitError>>) -> Limit {
    match to {
        None => limit.clone(),
        Some(Ok(changed)) => changed,
        Some(Err(error)) => {
            tracing::warn!(%error, policy = %policy.name(), limit = %limit.name(), "a limit that is data is left out");
            limit.clone()
        }
    }
}
