//! Policies that are not in the config: made by the caller, in force while a handle exists.

use std::sync::Arc;

use tollway_core::{Name, Policy};

use crate::metrics::{Metrics, PolicyCounts};
use crate::take::bound_policy::BoundPolicy;
use crate::{Limiter, PolicyHandle, Take};

/// Why a policy was not bound.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The config has a policy of that name, and the two would share meters.
    #[error("the config already has a policy {0}; choose another name")]
    Configured(Name),
}

tollway_core::debug_as_display!(BindError);

impl Limiter {
    /// A handle for a policy that is not among the limiter's: a limit that its caller chose, say.
    ///
    /// It applies to takes under this handle and its clones, and no reload changes it. Meters belong to the policy's name:
    /// another policy of the same name shares them for limits that are equal.
    ///
    /// ```
    /// use tollway::core::Policy;
    ///
    /// let limiter = tollway::Limiter::builder().build();
    /// let handle = limiter.bind(Policy::new("chosen", ["2 / minute"])?)?;
    /// assert!(handle.try_take().subject("anna").now()?.is_granted());
    /// assert!(handle.try_take().subject("anna").now()?.is_granted());
    /// assert!(!handle.try_take().subject("anna").now()?.is_granted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bind(&self, policy: Policy) -> Result<PolicyHandle, BindError> {
        self.bind_with(policy, |metrics| Some(metrics.of_callers()))
    }

    /// Like [`bind`](Self::bind), and counted under the policy's own name and limits in the [metrics](Self::samples), where
    /// others share `of_callers`. For names that the program chooses: each makes series that stay.
    pub fn bind_counted(&self, policy: Policy) -> Result<PolicyHandle, BindError> {
        self.bind_with(policy, |_| None)
    }

    fn bind_with(
        &self,
        policy: Policy,
        counts: impl FnOnce(&Metrics) -> Option<Arc<PolicyCounts>>,
    ) -> Result<PolicyHandle, BindError> {
        let registry = self.registry();
        if registry.find(policy.name().as_str()).is_ok() {
            return Err(BindError::Configured(policy.name().clone()));
        }
        let state = Arc::clone(registry.state());
        let counts = state.metrics.as_ref().and_then(counts);
        let bound = BoundPolicy::of_caller(state, Arc::new(policy), registry.generation(), counts);
        Ok(PolicyHandle::bound_by_caller(self.clone(), &bound))
    }
}

impl<Mode> Take<'_, Mode> {
    /// Also under the policy of this handle, all or nothing; like [`and`](Take::and), without looking it up.
    ///
    /// The handle must be one of this limiter's.
    pub fn and_under(mut self, handle: &PolicyHandle) -> Self {
        self.add(handle.to_bound());
        self
    }
}
