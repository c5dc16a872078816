//! The policies in force, by name, and how they are exchanged while takes are under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use tollway_core::{Limit, LimitError, Name, Policy, Setting, Timestamp, nearest};

use crate::TakeError;
use crate::state::LimiterState;
use crate::take::bound_policy::BoundPolicy;

/// The policies in force. Accounts are keyed by policy and limit names, so replacing policies loses no usage.
pub(crate) struct Registry {
    state: Arc<LimiterState>,
    policies: ArcSwap<HashMap<Name, Arc<BoundPolicy>, RandomState>>,
    /// Incremented by every replacement, so that a handle detects cheaply that it is out of date.
    generation: AtomicU64,
    /// What they are made of. The lock serialises replacements by the file watch, the program and the store.
    inputs: Mutex<PolicyInputs>,
}

/// What the policies in force are made of.
#[derive(Default)]
struct PolicyInputs {
    /// As the file or the program has them.
    given: HashMap<Name, Arc<Policy>>,
    /// Amounts read from sources; they override `given`.
    sourced: HashMap<Name, Vec<(Name, u64)>>,
    /// Limits set in the store; they override both. In the store's order.
    settings: Vec<Setting>,
    /// The same by policy: every policy asks for its own.
    settings_by_policy: HashMap<Name, Vec<Setting>>,
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
            inputs: Mutex::default(),
        });
        // A state is made for one registry, so this is the first.
        let _ = registry.state.registry.set(Arc::downgrade(&registry));
        registry.replace(policies);
        registry
    }

    /// Puts these policies in force.
    pub(crate) fn replace(&self, policies: impl IntoIterator<Item = Arc<Policy>>) {
        let mut inputs = self.inputs();
        inputs.given = policies.into_iter().map(|policy| (policy.name().clone(), policy)).collect();
        self.warn_of_idle_bounds(&inputs);
        self.put_in_force(&inputs);
    }

    /// Puts these settings in force.
    pub(crate) fn set(&self, settings: Vec<Setting>) {
        let mut inputs = self.inputs();
        if inputs.settings != settings {
            inputs.set(settings);
            self.put_in_force(&inputs);
        }
    }

    /// Puts the amounts that a source gives for a policy in force, replacing its earlier ones.
    pub(crate) fn set_sourced(&self, policy: &Name, amounts: &[(Name, u64)]) {
        let mut inputs = self.inputs();
        if inputs.sourced.get(policy).map_or(&[][..], Vec::as_slice) != amounts {
            inputs.sourced.insert(policy.clone(), amounts.to_vec());
            self.put_in_force(&inputs);
        }
    }

    /// A policy as the file or the program has it.
    pub(crate) fn given(&self, policy: &Name) -> Option<Arc<Policy>> {
        self.inputs().given.get(policy).cloned()
    }

    /// The limits set in the store, as this process last read them.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        self.inputs().settings.clone()
    }

    /// When the amount of a limit in force was set in the store, if it was.
    pub(crate) fn set_at(&self, policy: &str, limit: &str) -> Option<Timestamp> {
        let inputs = self.inputs();
        let given = inputs.given.get(policy)?;
        let given = given.limits().iter().find(|given| given.name().as_str() == limit)?;
        let setting = inputs.setting(policy, limit)?;
        (setting.amount == 0 || given.with_setting(setting).is_ok()).then_some(setting.set_at)
    }

    /// Whether a limit was set to 0, which stops its policy.
    pub(crate) fn is_stopped(&self, policy: &str, limit: &str) -> bool {
        let inputs = self.inputs();
        inputs.given.get(policy).is_some_and(|given| inputs.amount_set(given, limit) == Some(0))
    }

    fn inputs(&self) -> MutexGuard<'_, PolicyInputs> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bound that the store does not have must not be relied on.
    fn warn_of_idle_bounds(&self, inputs: &PolicyInputs) {
        let bounded = |policy: &&Arc<Policy>| policy.subjects_max().is_some();
        let idle =
            inputs.given.values().filter(bounded).filter(|policy| !self.state.bounds_subjects_of(policy));
        idle.for_each(|policy| {
            tracing::warn!(policy = %policy.name(), "`subjects_max` has no effect: only a store in Redis bounds subjects");
        });
    }

    fn put_in_force(&self, inputs: &PolicyInputs) {
        let generation = self.generation.load(Ordering::Acquire) + 1;
        let bind = |policy: &Arc<Policy>| {
            let (policy, stopped) = (inputs.in_force(policy), inputs.stopped(policy));
            let bound = BoundPolicy::new(Arc::clone(&self.state), Arc::clone(&policy), generation);
            (policy.name().clone(), Arc::new(bound.with_stop(stopped)))
        };
        self.policies.store(Arc::new(inputs.given.values().map(bind).collect()));
        self.generation.store(generation, Ordering::Release);
        // Queued takes may be granted under the new limits.
        self.state.queues.notify_all();
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<BoundPolicy>, TakeError> {
        let policies = self.policies.load();
        policies.get(name).cloned().ok_or_else(|| {
            let meant = nearest(name, policies.keys().map(Name::as_str)).map(str::to_owned);
            TakeError::UnknownPolicy { name: name.chars().take(80).collect(), meant }
        })
    }

    pub(crate) fn policies(&self) -> Vec<Arc<Policy>> {
        let mut policies: Vec<_> =
            self.policies.load().values().map(|bound| Arc::clone(&bound.policy)).collect();
        policies.sort_by(|one, other| one.name().cmp(other.name()));
        policies
    }

    pub(crate) fn policies_len(&self) -> usize {
        self.policies.load().len()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn state(&self) -> &Arc<LimiterState> {
        &self.state
    }
}

impl PolicyInputs {
    fn set(&mut self, settings: Vec<Setting>) {
        self.settings_by_policy.clear();
        for setting in &settings {
            let of_policy = self.settings_by_policy.entry(setting.policy.clone()).or_default();
            of_policy.push(setting.clone());
        }
        self.settings = settings;
    }

    fn settings_of(&self, policy: &str) -> &[Setting] {
        self.settings_by_policy.get(policy).map_or(&[], Vec::as_slice)
    }

    fn setting(&self, policy: &str, limit: &str) -> Option<&Setting> {
        self.settings_of(policy).iter().find(|setting| setting.limit.as_str() == limit)
    }

    /// The first limit of a policy that was set to 0.
    fn stopped(&self, policy: &Policy) -> Option<usize> {
        policy.limits().iter().position(|limit| self.amount_set(policy, limit.name().as_str()) == Some(0))
    }

    /// The amount of a limit that was set in the store, else read from a source.
    fn amount_set(&self, policy: &Policy, limit: &str) -> Option<u64> {
        let sourced = || self.sourced.get(policy.name())?.iter().find(|(name, _)| name.as_str() == limit);
        let setting = self.setting(policy.name().as_str(), limit).map(|setting| setting.amount);
        setting.or_else(|| sourced().map(|(_, amount)| *amount))
    }

    /// The policy with the amounts from its source, then those set in the store. An invalid amount is ignored with a
    /// warning.
    fn in_force(&self, policy: &Arc<Policy>) -> Arc<Policy> {
        let sourced = self.sourced.get(policy.name()).map_or(&[][..], Vec::as_slice);
        let settings = self.settings_of(policy.name().as_str());
        if sourced.is_empty() && settings.is_empty() {
            return Arc::clone(policy);
        }
        let limits = policy.limits().iter().map(|limit| {
            let amount = sourced.iter().find(|(name, _)| name == limit.name());
            let amount = amount.filter(|(_, amount)| *amount > 0);
            let with_amount = amount.map(|(_, amount)| limit.with_amount(*amount));
            let limit = changed(policy, limit, with_amount);
            let setting =
                settings.iter().find(|setting| setting.limit == *limit.name() && setting.amount > 0);
            changed(policy, &limit, setting.map(|setting| limit.with_setting(setting)))
        });
        match policy.with_limits(limits.collect()) {
            Ok(policy) => Arc::new(policy),
            Err(error) => {
                tracing::warn!(%error, "limits set in the store or read from a source are ignored");
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
            tracing::warn!(%error, policy = %policy.name(), limit = %limit.name(), "a limit set in the store or read from a source is ignored");
            limit.clone()
        }
    }
}
