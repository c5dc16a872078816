//! The config file: read, checked and kept as policies that are known to be valid.
//!
//! ```text
//! [store]
//! url = "memory:"
//!
//! [policies.adobe]
//! limits = ["200 requests / minute"]
//! ```
//!
//! This module reads `[store]`, `[policies]`, `[apis]`, `[bounds]` and `[incidents]`. Other crates read their own sections through [`FromConfig`];
//! [`tollway_config`] documents the file and how mistakes are shown.
//!
//! Where to look: `policy`, `limits`, `api`, `bounds`, `incidents` and `store` read their sections, `store_kind` is the table of
//! all kinds of store, `remote` knows the URLs of those across a network, `layout` what fits a table that already runs.

mod api;
mod bounds;
mod incidents;
mod layout;
mod limits;
mod policy;
mod remote;
mod store;
mod store_kind;
mod topic;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollway_config::{FromConfig, Section};
use tollway_core::{Name, Policy};

pub use api::{
    Api, ApiAccounts, ApiEndpoint, ApiGateway, ApiHeader, ApiHeaderError, ApiRate, BACKOFF_CODES_DEFAULT,
    CostEstimate, EndpointPattern, FieldOrigin, MAX_RETRIES_DEFAULT, MAX_TIME_DEFAULT, RateSettings,
    TIMEOUT_DEFAULT, UnitCost,
};
pub use bounds::{BoundsConfig, WAITING_TAKES_DEFAULT, WAITING_TAKES_MAX};
pub use incidents::{IncidentsConfig, WebhookConfig, WebhookSecretError, state_file};
pub use remote::RemoteUrl;
pub use store::{MEMORY_LINES_MAX, StoreUrl, StoreUrlError};
pub use store_kind::{STORE_KINDS, SharedBy, StoreClock, StoreKind};
pub use tollway_config::{
    CONFIG_BYTES_MAX, CONFIG_FILE, CONFIG_FILES_MAX, CONFIG_VARIABLE, ConfigError, ConfigProblem,
    ConfigWatch, Millionths, PROBLEMS_MAX, WATCH_INTERVAL,
};
pub use topic::{TopicConfig, TopicError};

use crate::source::PolicySource;

/// A config together with the file it was read from, so that changes since then can be seen.
pub type ConfigFile = tollway_config::ConfigFile<Config>;

/// The limits that a config file defines. Sections of other crates are ignored.
///
/// ```
/// let config = tollway::Config::parse(r#"
///     [policies.adobe]
///     limits = ["200 requests / minute"]
/// "#)?;
/// assert_eq!(config.store(), None);
/// assert!(config.policy("adobe").is_some());
/// # Ok::<(), tollway::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    store: Option<StoreUrl>,
    /// Sorted by name.
    policies: Vec<Arc<Policy>>,
    /// The first in the file, which its author thought of first.
    first_policy: Option<Name>,
    /// Of the policies that have one, sorted by their names.
    sources: Vec<PolicySource>,
    /// Sorted by name.
    apis: Vec<Arc<Api>>,
    bounds: BoundsConfig,
    incidents: IncidentsConfig,
}

impl Config {
    /// Reads a config out of its text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        tollway_config::parse(text)
    }

    /// Reads the config file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigFile::load(path).map(ConfigFile::into_config)
    }

    /// Reads the config file at `path` as an earlier version of `current`: paths in it are meant from there.
    pub fn load_earlier(path: impl AsRef<Path>, current: &Path) -> Result<Self, ConfigError> {
        tollway_config::load_earlier(path, current)
    }

    /// Finds the config file and reads it; see [`Config::find_path`].
    pub fn find(explicit: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load(Self::find_path(explicit)?)
    }

    /// Where the config file is: the explicit path, else what `$TOLLWAY_CONFIG` names, else `./tollway.toml`.
    ///
    /// If there is no such file, the error lists the paths that were tried ([`ConfigError::is_not_found`]).
    pub fn find_path(explicit: Option<&Path>) -> Result<PathBuf, ConfigError> {
        tollway_config::find_path(explicit)
    }

    /// The store, if the file names one; otherwise a limiter uses memory.
    pub fn store(&self) -> Option<&StoreUrl> {
        self.store.as_ref()
    }

    /// With this policy, unless the file has one of its name: for parts that need a policy which the file leaves out.
    #[must_use]
    pub fn with_policy(mut self, policy: Arc<Policy>) -> Self {
        if let Err(place) = self.policies.binary_search_by(|known| known.name().cmp(policy.name())) {
            self.policies.insert(place, policy);
        }
        self
    }

    /// The policies, sorted by name.
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// The policy that the file has first, for examples.
    pub fn first_policy(&self) -> Option<&Name> {
        self.first_policy.as_ref()
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&Arc<Policy>> {
        let found = self.policies.binary_search_by(|policy| policy.name().as_str().cmp(name)).ok()?;
        self.policies.get(found)
    }

    /// The sources of policy amounts, for policies that name one.
    pub fn sources(&self) -> &[PolicySource] {
        &self.sources
    }

    /// The vendors that are called, sorted by name.
    pub fn apis(&self) -> &[Arc<Api>] {
        &self.apis
    }

    /// The most that a process keeps in memory.
    pub fn bounds(&self) -> &BoundsConfig {
        &self.bounds
    }

    /// Where incidents go: a file and a webhook.
    pub fn incidents(&self) -> &IncidentsConfig {
        &self.incidents
    }

    /// The api of this name. [`Api::profile`] has those that are shipped.
    pub fn api(&self, name: &str) -> Option<&Arc<Api>> {
        let found = self.apis.binary_search_by(|api| api.name().as_str().cmp(name)).ok()?;
        self.apis.get(found)
    }
}

impl FromConfig for Config {
    fn read(root: &mut Section<'_>) -> Self {
        let store = root.section("store").and_then(store::read);
        let bounds = root.section("bounds").map(|section| bounds::read(section, store.as_ref()));
        let incidents = root.section("incidents").map(incidents::read).unwrap_or_default();
        let policies = root.named_sections("policies");
        // Also those with something wrong in them: an api that names one is not wrong, too.
        let mut names: Vec<&str> = policies.iter().map(|(name, _)| *name.get_ref()).collect();
        names.sort_unstable();
        let apis = root.named_sections("apis").into_iter();
        let read_api = |(name, section)| {
            let api = api::read(&name, section, &names)?;
            Some((name, Arc::new(api)))
        };
        let apis: Vec<_> = apis.filter_map(read_api).collect();
        let read = policies.into_iter().filter_map(|(name, section)| {
            let (policy, source) = policy::read(&name, section)?;
            Some(((name, policy), source))
        });
        let (mut policies, sources): (Vec<_>, Vec<_>) = read.unzip();
        api::attach(&apis, &mut policies, root.report());
        layout::check(store.as_ref(), &policies, root.report());
        let first = policies.iter().min_by_key(|(name, _)| name.span().start);
        let first_policy = first.map(|(_, policy)| policy.name().clone());
        let mut policies: Vec<_> = policies.into_iter().map(|(_, policy)| policy).collect();
        policies.sort_by(|one, other| one.name().cmp(other.name()));
        let mut sources: Vec<_> = sources.into_iter().flatten().collect();
        sources.sort_by(|one, other| one.policy().cmp(other.policy()));
        let mut apis: Vec<_> = apis.into_iter().map(|(_, api)| api).collect();
        apis.sort_by(|one, other| one.name().cmp(other.name()));
        let bounds = bounds.unwrap_or_default();
        Self { store, policies, first_policy, sources, apis, bounds, incidents }
    }

    fn in_folder(&mut self, folder: &Path) {
        self.incidents.in_folder(folder);
        if let Some(path) = self.store.as_mut().and_then(StoreUrl::path_mut)
            && folder != Path::new(".")
        {
            *path = folder.join(&*path);
        }
    }
}
