//! The limiter: policies over a store, in the hands of a program.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{AccountList, Clock, Name, Policy, Store, Subject};

use crate::apis::with_own_apis;
use crate::builder::{LimiterBuilder, add_policy};
use crate::config::{Api, ConfigFile, ConfigWatch, WATCH_INTERVAL};
use crate::outage::debts::settle_on_drop;
use crate::outage::parts::StoreStatus;
use crate::policy::registry::Registry;
use crate::policy::usage::{Usage, accounts, reset, usage, usage_of_each};
use crate::source::PolledSources;
use crate::take::bound_charges::BoundCharges;
use crate::take::bound_policy::{BoundPolicy, BoundRef};
use crate::{
    BuildError, Config, Pending, PolicyHandle, SetLimitError, StoreUrl, Take, TakeError, Tries, Waits,
};

/// Policies over a store. Cheap to clone; clones are the same limiter.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let limiter = tollway::Limiter::builder().policy("adobe", ["2 requests / minute from first call"])?.build();
/// assert!(limiter.try_take("adobe").await?.is_granted());
/// assert!(limiter.try_take("adobe").await?.is_granted());
/// assert!(!limiter.try_take("adobe").await?.is_granted());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Limiter {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Arc<Registry>,
    reload: Arc<Mutex<ReloadStatus>>,
    polled_sources: Arc<PolledSources>,
    /// Ends with the last clone.
    watch: Mutex<Option<ConfigWatch>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        settle_on_drop(self.registry.state());
        self.registry.state().incidents.sinks().flush();
    }
}

/// How the last reload of the config file went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadStatus {
    /// How often the policies were exchanged since the start.
    pub reloads: u64,
    /// Why the file as it is now is not in force, if it is not.
    pub error: Option<String>,
}

impl Limiter {
    /// A limiter put together in code.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }

    pub(crate) fn of(registry: Arc<Registry>, polled_sources: Arc<PolledSources>) -> Self {
        let inner = Inner { registry, reload: Arc::default(), polled_sources, watch: Mutex::new(None) };
        Self { inner: Arc::new(inner) }
    }

    /// A limiter as a config file describes it. It follows the file: a changed one is in force within about a second,
    /// a wrong one is reported and the old one kept. Usage is kept.
    ///
    /// It counts its decisions, as with [`LimiterBuilder::metrics`], and keeps incidents in a file, as
    /// [`LimiterBuilder::incidents`] does.
    ///
    /// Limits that were set in the store ([`Limiter::set_limit`]) beat those that are read from a source, and those beat
    /// the file's.
    pub async fn from_config(path: impl AsRef<Path>) -> Result<Self, BuildError> {
        let limiter = Self::builder().metrics().file(path)?;
        limiter.first_settings(limiter.follow_settings().await);
        limiter.first_settings(limiter.sources_read().await);
        Ok(limiter)
    }

    /// The same, for threads without a runtime.
    pub fn from_config_blocking(path: impl AsRef<Path>) -> Result<Self, BuildError> {
        Self::builder().metrics().file_blocking(path)
    }

    /// A store that does not answer must not keep the program from starting; the background task retries. A store that
    /// keeps no limits has none to read.
    pub(crate) fn first_settings(&self, read: Result<(), SetLimitError>) {
        match read {
            Ok(()) | Err(SetLimitError::NotKept) => {}
            Err(error) => {
                tracing::warn!(%error, "the limits that are set could not be read; the config file's are in force");
            }
        }
    }

    pub(crate) fn watch(&self, file: ConfigFile) {
        let registry = Arc::clone(&self.inner.registry);
        let status = Arc::clone(&self.inner.reload);
        let polled_sources = Arc::clone(&self.inner.polled_sources);
        // With its password, which may have changed where it is kept.
        let store = file.config().store().map(StoreUrl::connection_url);
        let watch = file.watch(WATCH_INTERVAL, move |news| {
            let mut status = status.lock().unwrap_or_else(PoisonError::into_inner);
            match news {
                Ok(config) if config.store().map(StoreUrl::connection_url) != store => {
                    let error = "the store or its password has changed; that needs a restart, the old file stays in force";
                    tracing::error!("{error}");
                    status.error = Some(error.to_owned());
                }
                Ok(config) => {
                    put_in_force(&config, &registry, &polled_sources, &mut status);
                    tracing::info!(policies = config.policies().len(), "config file reloaded");
                }
                Err(error) => {
                    tracing::error!(%error, "config file is wrong; the old one stays in force");
                    status.error = Some(error.to_string());
                }
            }
        });
        match watch {
            Ok(watch) => *self.inner.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch),
            Err(error) => self.reload_lock().error = Some(format!("the file cannot be watched: {error}")),
        }
    }

    /// Requests a permit and waits for it in the queue, first come, first served.
    ///
    /// On a tokio runtime the wait uses its timers, which must be enabled; on any other executor, a thread of the limiter's.
    pub fn take<'l>(&'l self, policy: &str) -> Take<'l, Waits> {
        Take::new(self, self.find(policy).map(BoundRef::Owned).map_err(Box::new))
    }

    /// Requests a permit without waiting.
    pub fn try_take<'l>(&'l self, policy: &str) -> Take<'l, Tries> {
        Take::new(self, self.find(policy).map(BoundRef::Owned).map_err(Box::new))
    }

    /// What a policy's meters show.
    pub fn usage(&self, policy: &str) -> Pending<Usage> {
        usage(self.find(policy).map(BoundCharges::shared))
    }

    /// What a policy's meters show for each of these subjects, in their order.
    pub fn usage_of_each(
        &self,
        policy: &str,
        subjects: impl IntoIterator<Item = Subject>,
    ) -> Pending<Vec<Usage>> {
        usage_of_each(self.find(policy), subjects.into_iter().collect())
    }

    /// At most this many accounts in the store, of one policy or of all. The policy need not be in the config: takes with
    /// limits of their own leave accounts, too. `None` if the store cannot list them.
    pub fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Pending<Option<AccountList>> {
        accounts(self.inner.registry.state(), policy.cloned(), at_most)
    }

    /// Makes a policy's meters new for one subject. Permits granted before settle nothing afterwards.
    pub fn reset(&self, policy: &str) -> Pending<()> {
        reset(self.find(policy).map(BoundCharges::shared))
    }

    /// A policy looked up once, for callers that take under it repeatedly.
    pub fn policy(&self, name: &str) -> Result<PolicyHandle, TakeError> {
        let bound = self.inner.registry.find(name)?;
        Ok(PolicyHandle::new(self.clone(), &bound))
    }

    /// The store that counts, such as to serve it to other processes.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.inner.registry.state().store)
    }

    /// The clock that waiting goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.registry.state().clock
    }

    /// The policies in force, sorted by name.
    pub fn policies(&self) -> Vec<Arc<Policy>> {
        self.inner.registry.state().activity.note();
        self.inner.registry.policies()
    }

    /// Replaces the policies. Usage is kept, by policy and limit.
    pub fn replace_policies(&self, policies: impl IntoIterator<Item = Policy>) -> Result<(), BuildError> {
        let mut by_name = BTreeMap::new();
        policies.into_iter().try_for_each(|policy| add_policy(&mut by_name, Arc::new(policy)))?;
        self.inner.registry.replace(by_name.into_values());
        Ok(())
    }

    /// Replaces the policies, sources and apis by those of another config; its store is ignored. Usage is kept. For programs that
    /// watch their config file themselves because it has more sections; [`Limiter::from_config`] watches the file.
    pub fn replace_config(&self, config: &Config) {
        put_in_force(config, &self.inner.registry, &self.inner.polled_sources, &mut self.reload_lock());
    }

    /// Records why the config file as it is now is not in force, for [`Limiter::reload_status`]. The counterpart of
    /// [`Limiter::replace_config`].
    pub fn config_is_wrong(&self, why: impl Into<String>) {
        self.reload_lock().error = Some(why.into());
    }

    /// How the last reload of the config file went.
    pub fn reload_status(&self) -> ReloadStatus {
        self.reload_lock().clone()
    }

    /// Permits whose units could not be given back, since the start.
    pub fn permits_lost(&self) -> u64 {
        self.inner.registry.state().permits_lost.load(Ordering::Relaxed)
    }

    /// How the store has been doing.
    pub fn store_status(&self) -> StoreStatus {
        let state = self.inner.registry.state();
        StoreStatus { limiters: state.fallback.limiters.known(), ..state.outages.status() }
    }

    /// How many limiters share the store, as [`StoreStatus::limiters`] says it, without a lock.
    pub fn limiters_of_store(&self) -> Option<NonZeroU32> {
        self.inner.registry.state().fallback.limiters.known()
    }

    /// Waits until the store fails or is back, compared with an earlier status, and returns the new one.
    pub async fn store_status_after(&self, seen: &StoreStatus) -> StoreStatus {
        self.inner.registry.state().outages.status_after(seen).await;
        self.store_status()
    }

    pub(crate) fn find(&self, policy: &str) -> Result<Arc<BoundPolicy>, TakeError> {
        self.inner.registry.find(policy)
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    pub(crate) fn polled_sources(&self) -> &PolledSources {
        &self.inner.polled_sources
    }

    fn reload_lock(&self) -> std::sync::MutexGuard<'_, ReloadStatus> {
        self.inner.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put_in_force(
    config: &Config,
    registry: &Arc<Registry>,
    polled_sources: &PolledSources,
    status: &mut ReloadStatus,
) {
    if *config.bounds() != registry.state().bounds {
        tracing::warn!("[bounds] has changed; that needs a restart");
    }
    if !config.incidents().is_like(registry.state().incidents.config()) {
        tracing::warn!("[incidents] has changed; that needs a restart");
    }
    let (apis, policies) = with_own_apis(config, registry.state().own_apis());
    registry.state().set_api_policies(api_policies(&apis).collect());
    registry.state().set_apis(&apis);
    registry.replace(policies);
    polled_sources.replace(config.sources(), registry);
    status.reloads += 1;
    status.error = None;
}

pub(crate) fn api_policies(apis: &[Arc<Api>]) -> impl Iterator<Item = Name> {
    apis.iter().flat_map(|api| api.policies().cloned())
}
