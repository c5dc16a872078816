//! How a program builds a limiter: policies, a store, and what else it wants.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollway_core::{Clock, Name, Policy, Span, Store};
use tollway_memory::{ACCOUNTS_DEFAULT, MemoryStore, SteadyClock, SystemClock};

use crate::config::{Api, BoundsConfig, ConfigFile, IncidentsConfig};
use crate::incident::{IncidentFile, Incidents};
use crate::limiter::api_policies;
use crate::metrics::Metrics;
use crate::open::OpenedStore;
use crate::policy::registry::Registry;
use crate::policy::settings::follow_in_background;
use crate::source::{PolicySource, PolledSources, SOURCE_EVERY_MAX, SOURCE_EVERY_MIN, Source, SourceToPoll};
use crate::state::{LimiterState, StateOptions};
use crate::{BuildError, Config, Limiter, StoreUrl};

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
    bounds: BoundsConfig,
    memory_accounts: Option<usize>,
    fixed_limits: bool,
    metrics: bool,
    pub(crate) runtime: Option<tokio::runtime::Handle>,
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
        self.bounds = *config.bounds();
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
            OpenedStore::Memory { accounts } => {
                self.store = None;
                self.memory_accounts = accounts.or(self.memory_accounts);
            }
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

    /// Keeps at most this many accounts in the memory store, whatever the config's `[bounds]` say.
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
        let accounts = self.memory_accounts.or(self.bounds.memory_accounts()).unwrap_or(ACCOUNTS_DEFAULT);
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
        let options = StateOptions { fixed_limits: self.fixed_limits, bounds: self.bounds };
        let state = LimiterState::new(store, memory, clock, of_store, options, metrics, incidents);
        state.timers.run_on(self.runtime);
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
        Limiter::of(registry, polled_sources)
    }
}

/// Adds a policy. Two of one name would share their accounts.
pub(crate) fn add_policy(
    policies: &mut BTreeMap<Name, Arc<Policy>>,
    policy: Arc<Policy>,
) -> Result<(), BuildError> {
    match policies.entry(policy.name().clone()) {
        Entry::Vacant(free) => {
            free.insert(policy);
            Ok(())
        }
        Entry::Occupied(taken) => Err(BuildError::SamePolicy(taken.key().to_string())),
    }
}
