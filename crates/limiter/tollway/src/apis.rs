//! The apis of a limiter: vendors that are called.

use std::collections::HashSet;
use std::sync::Arc;

use tollway_core::{Name, Policy};

use crate::config::Api;
use crate::{BuildError, Config, Limiter, LimiterBuilder};

impl Limiter {
    /// The api of this name in the config in force. A reload replaces it; an `Api` that is held stays as it is.
    pub fn api(&self, name: &str) -> Option<Arc<Api>> {
        let apis = self.apis();
        let found = apis.binary_search_by(|api| api.name().as_str().cmp(name)).ok()?;
        apis.get(found).cloned()
    }

    /// The apis of the config in force, sorted by name.
    pub fn apis(&self) -> Arc<[Arc<Api>]> {
        self.registry().state().apis()
    }
}

/// The policies that an api brings if the config has none of their names.
pub(crate) fn brought_policies(api: &Api) -> impl Iterator<Item = Policy> {
    let own = api.own_policy().filter(|policy| Some(policy.name()) == api.policy());
    own.into_iter().chain(api.slots_policy())
}

/// The apis of a config, and those that the program brought and the config does not have: a reload must not take them away.
pub(crate) fn with_own_apis(config: &Config, own: &[Arc<Api>]) -> (Vec<Arc<Api>>, Vec<Arc<Policy>>) {
    let (mut apis, mut policies) = (config.apis().to_vec(), config.policies().to_vec());
    let mut added: HashSet<Name> = HashSet::new();
    for api in own.iter().filter(|api| config.api(api.name().as_str()).is_none()) {
        apis.push(Arc::clone(api));
        for policy in brought_policies(api) {
            if config.policy(policy.name().as_str()).is_none() && added.insert(policy.name().clone()) {
                policies.push(Arc::new(policy));
            }
        }
    }
    apis.sort_by(|one, other| one.name().cmp(other.name()));
    (apis, policies)
}

impl LimiterBuilder {
    /// Adds an api with the policies of its own limits and of its calls in flight, unless policies of those names were added. It replaces an earlier api of
    /// its name.
    ///
    /// ```
    /// use tollway::{Limiter, config::Api};
    ///
    /// let notion = Api::profile("notion").ok_or("no such profile")?;
    /// let limiter = Limiter::builder().with_api(notion)?.build();
    /// assert!(limiter.api("notion").is_some());
    /// assert!(limiter.try_take("notion").now()?.is_granted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_api(mut self, api: impl Into<Arc<Api>>) -> Result<Self, BuildError> {
        let api = api.into();
        for policy in brought_policies(&api) {
            if !self.policies.contains_key(policy.name()) {
                self = self.with_policy(policy)?;
            }
        }
        self.api_policies.extend(api.policies().cloned());
        self.own_apis.push(Arc::clone(&api));
        self.add_apis([api]);
        Ok(self)
    }

    pub(crate) fn add_apis(&mut self, apis: impl IntoIterator<Item = Arc<Api>>) {
        for api in apis {
            match self.apis.binary_search_by(|known| known.name().cmp(api.name())) {
                Ok(place) => drop(self.apis.splice(place..=place, [api])),
                Err(place) => self.apis.insert(place, api),
            }
        }
    }
}
