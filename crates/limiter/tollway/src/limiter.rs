//! The limiter: policies over a store, in the hands of a program.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{AccountList, Clock, Name, Policy, Span, Store, Subject};
use tollway_memory::{ACCOUNTS_DEFAULT, MemoryStore, SteadyClock, SystemClock};

use crate::apis::with_own_apis;
use crate::config::{Api, ConfigFile, ConfigWatch, IncidentsConfig, WATCH_INTERVAL};
use crate::incident::{IncidentFile, Incidents};
use crate::metrics::Metrics;
use crate::open::OpenedStore;
use crate::outage::debts::settle_on_drop;
use crate::outage::parts::StoreStatus;
use crate::policy::registry::Registry;
use crate::policy::settings::follow_in_background;
use crate::policy::usage::{Usage, accounts, reset, usage, usage_of_each};
use crate::source::{PolicySource, PolledSources, SOURCE_EVERY_MAX, SOURCE_EVERY_MIN, Source, SourceToPoll};
use crate::state::LimiterState;
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
    fn first_settings(&self, read: Result<(), SetLimitError>) {
        match read {
            Ok(()) | Err(SetLimitError::NotKept) => {}
            Err(error) => {
                tracing::warn!(%error, "the limits that are set could not be read; the config file's are in force");
            }
        }
    }

    fn watch(&self, file: ConfigFile) {
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

/// Puts a limiter together in code.
#[derive(Default)]
pub struct LimiterBuilder {
    pub(crate) policies: BTreeMap<Name, Arc<Policy>>,
    pub(crate) api_policies: HashSet<Name>,
    /// The apis that the program brought itself.
    pub(crate) own_apis: Vec<Arc<Api>>,
    /// Sorted by name.
    pub(crate) apis: Vec<Arc<Api>>,
    sources: Vec<SourceToPoll>,
    sources_folder: Option<PathBuf>,
    store: Option<Arc<dyn Store>>,
    store_url: Option<StoreUrl>,
    incidents: IncidentsConfig,
    clock: Option<Arc<dyn Clock>>,
    memory_accounts: Option<usize>,
    fixed_limits: bool,
    metrics: bool,
}

impl LimiterBuilder {
    /// Adds a policy of limits written as text.
    pub fn policy<'a>(
        self,
        name: &str,
        limits: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, BuildError> {
        self.with_policy(Policy::new(name, limits)?)
    }

    /// Adds a policy.
    pub fn with_policy(mut self, policy: impl Into<Arc<Policy>>) -> Result<Self, BuildError> {
        add_policy(&mut self.policies, policy.into())?;
        Ok(self)
    }

    /// Names a policy as that of an outbound api: its recent grants are kept as evidence for incidents
    /// ([`Permit::refused_by_vendor`](crate::Permit::refused_by_vendor)). A config's `[apis]` do so by themselves.
    pub fn api_policy(mut self, policy: &str) -> Result<Self, BuildError> {
        self.api_policies.insert(Name::new(policy).map_err(tollway_core::PolicyError::from)?);
        Ok(self)
    }

    /// Adds the policies and apis of a config with their sources, and uses its store. Its policies replace those that an
    /// earlier api brought with it.
    pub fn config(self, config: &Config) -> Result<Self, BuildError> {
        let builder = self.config_beside_store(config)?;
        match config.store() {
            Some(store) => builder.store_at(store),
            None => Ok(builder),
        }
    }

    /// The same with another store than the config's, which is not opened.
    ///
    /// ```
    /// use tollway::{Config, Limiter, StoreUrl};
    ///
    /// let config = "[store]\nurl = \"file:/var/lib/tollway/state\"\n[policies.api]\nlimits = [\"9 / minute\"]";
    /// let in_memory = Limiter::builder().config_at(&Config::parse(config)?, &StoreUrl::default())?.build();
    /// assert!(in_memory.try_take("api").now()?.is_granted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn config_at(self, config: &Config, store: &StoreUrl) -> Result<Self, BuildError> {
        self.config_beside_store(config)?.store_at(store)
    }

    fn config_beside_store(mut self, config: &Config) -> Result<Self, BuildError> {
        let brought = &self.api_policies;
        self.policies.retain(|name, _| !brought.contains(name) || config.policy(name.as_str()).is_none());
        config.policies().iter().try_for_each(|policy| add_policy(&mut self.policies, Arc::clone(policy)))?;
        self.api_policies.extend(api_policies(config.apis()));
        self.add_apis(config.apis().iter().cloned());
        Ok(self.sources(config.sources()).incidents(config.incidents()))
    }

    /// The limiter of a config file together with this builder's settings, for threads without a runtime; otherwise as
    /// [`Limiter::from_config`].
    pub fn file_blocking(self, path: impl AsRef<Path>) -> Result<Limiter, BuildError> {
        let limiter = self.file(path)?;
        limiter.first_settings(limiter.follow_settings().now());
        limiter.first_settings(limiter.sources_read().now());
        Ok(limiter)
    }

    /// The limiter of a config file together with this builder's settings, without asking the store: limits that are set
    /// there apply a moment later. It follows the file. [`Limiter::from_config`] waits for them.
    pub fn file(self, path: impl AsRef<Path>) -> Result<Limiter, BuildError> {
        let file = ConfigFile::load(path)?;
        let limiter = self.config(file.config())?.build();
        limiter.watch(file);
        Ok(limiter)
    }

    /// Keeps incidents in the file that a config names, by default beside the store's. To send them to its webhook, too, call
    /// `tollway_notify::webhook::attach` with the limiter.
    #[must_use]
    pub fn incidents(mut self, config: &IncidentsConfig) -> Self {
        self.incidents = config.clone();
        self
    }

    /// Reads the amounts of these policies from their sources.
    #[must_use]
    pub fn sources(mut self, sources: &[PolicySource]) -> Self {
        self.sources.extend(sources.iter().map(SourceToPoll::configured));
        self
    }

    /// Keeps the last amounts read from the config's sources in this folder, for programs that end soon, such as commands.
    /// The next one starts from them, and reads a source only when its interval is over. Programs may share the folder.
    #[must_use]
    pub fn keep_sources_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sources_folder = Some(folder.into());
        self
    }

    /// Reads the amounts of a policy's limits from a source of your own, this often ([`SOURCE_EVERY_MIN`] to
    /// [`SOURCE_EVERY_MAX`]).
    pub fn source(mut self, policy: &str, every: Span, source: Arc<dyn Source>) -> Result<Self, BuildError> {
        let policy = Name::new(policy).map_err(tollway_core::PolicyError::from)?;
        let every = every.clamp(SOURCE_EVERY_MIN, SOURCE_EVERY_MAX);
        self.sources.push(SourceToPoll { policy, every, source, configured: None, kept: None });
        Ok(self)
    }

    /// Counts decisions for [`Limiter::samples`]. Costs a few nanoseconds a take.
    #[must_use]
    pub fn metrics(mut self) -> Self {
        self.metrics = true;
        self
    }

    /// Uses the store at this URL.
    pub fn store_at(mut self, url: &StoreUrl) -> Result<Self, BuildError> {
        match url.open()? {
            OpenedStore::Memory { accounts } => (self.store, self.memory_accounts) = (None, accounts),
            OpenedStore::Other(store) => self.store = Some(store),
        }
        self.store_url = Some(url.clone());
        Ok(self)
    }

    /// Uses this store instead of memory.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Ignores limits that are set in the store.
    #[must_use]
    pub fn fixed_limits(mut self) -> Self {
        self.fixed_limits = true;
        self
    }

    /// Uses this clock in the memory store and for waiting, instead of the store's ([`Store::clock`]) or the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Keeps at most this many accounts in the memory store.
    #[must_use]
    pub fn memory_accounts(mut self, accounts: usize) -> Self {
        self.memory_accounts = Some(accounts);
        self
    }

    /// The limiter.
    pub fn build(self) -> Limiter {
        let of_store = self.store.as_ref().and_then(|store| store.clock());
        let steady = || Some(Arc::new(SteadyClock::from_now(of_store.clone()?)?) as Arc<dyn Clock>);
        let clock = self.clock.or_else(steady).unwrap_or_else(|| Arc::new(SystemClock::new()));
        let accounts = self.memory_accounts.unwrap_or(ACCOUNTS_DEFAULT);
        let memory = || Arc::new(MemoryStore::with_capacity(accounts, Arc::clone(&clock)));
        let (memory, store): (_, Arc<dyn Store>) = match self.store {
            Some(store) => (None, store),
            None => {
                let memory = memory();
                (Some(Arc::clone(&memory)), memory)
            }
        };
        let metrics = self.metrics.then(Metrics::new);
        let file = self.incidents.file(self.store_url.as_ref()).map(IncidentFile::at);
        let incidents = Incidents::new(self.incidents, file);
        let state = LimiterState::new(store, memory, clock, of_store, self.fixed_limits, metrics, incidents);
        state.set_api_policies(self.api_policies);
        state.set_apis(&self.apis);
        state.set_own_apis(self.own_apis);
        let registry = Registry::start(state, self.policies.into_values());
        follow_in_background(&registry);
        let polled_sources = Arc::new(PolledSources::default());
        for mut source_to_poll in self.sources {
            if let Some(folder) = &self.sources_folder {
                source_to_poll = source_to_poll.kept_in(folder);
            }
            polled_sources.begin(source_to_poll, &registry);
        }
        let inner = Inner { registry, reload: Arc::default(), polled_sources, watch: Mutex::new(None) };
        Limiter { inner: Arc::new(inner) }
    }
}

fn put_in_force(
    config: &Config,
    registry: &Arc<Registry>,
    polled_sources: &PolledSources,
    status: &mut ReloadStatus,
) {
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

fn api_policies(apis: &[Arc<Api>]) -> impl Iterator<Item = Name> {
    apis.iter().flat_map(|api| api.policies().cloned())
}

/// Adds a policy. Two of one name would share their accounts.
fn add_policy(policies: &mut BTreeMap<Name, Arc<Policy>>, policy: Arc<Policy>) -> Result<(), BuildError> {
    match policies.entry(policy.name().clone()) {
        Entry::Vacant(free) => {
            free.insert(policy);
            Ok(())
        }
        Entry::Occupied(taken) => Err(BuildError::SamePolicy(taken.key().to_string())),
    }
}
