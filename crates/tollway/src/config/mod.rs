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
//! Where to look: `file` finds and reads the text, `section` walks over its tables, `policy`, `limits`, `api`, `store`,
//! `server` and `consumers` know what stands in them, `report` collects what is wrong, `error` and `excerpt` show it, `watch` sees changes.

mod api;
mod consumers;
mod error;
mod excerpt;
mod file;
mod layout;
mod limits;
mod millionths;
mod policy;
mod remote;
mod report;
mod section;
mod server;
mod store;
mod suggest;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollway_core::Policy;

pub use api::{Api, ApiRate, RateSettings};
pub use consumers::{
    ANONYMOUS_PER_HOUR_DEFAULT, CONSUMERS_POLICY, ConsumerTokens, ConsumersConfig, RecordsUrl, WhoCalls,
};
pub use error::{ConfigError, ConfigProblem, PROBLEMS_MAX};
pub use file::{CONFIG_BYTES_MAX, CONFIG_FILE, CONFIG_VARIABLE, ConfigFile};
pub use millionths::Millionths;
pub use remote::RemoteUrl;
pub use server::{
    ANONYMOUS_POLICY, CONNECTIONS_DEFAULT, CONNECTIONS_PER_ADDRESS_DEFAULT, DescriptorRule, DescriptorTarget,
    ENTRIES_PER_RULE_MAX, EntryPattern, GRACE_DEFAULT, ListenAddress, ServerConfig, SubjectPiece,
    SubjectTemplate, TlsFiles, Token, ValuePattern,
};
pub use store::{MEMORY_LINES_MAX, StoreUrl, StoreUrlError};
pub use watch::{ConfigWatch, WATCH_INTERVAL};

use report::Report;
use section::Section;

use crate::source::PolicySource;

/// Sections that the format has and this version does not.
const SECTIONS_TO_COME: [&str; 2] = ["pipelines", "alarms"];

/// What a config file says.
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
    /// Of the policies that have one, sorted by their names.
    sources: Vec<PolicySource>,
    /// Sorted by name.
    apis: Vec<Api>,
    server: Option<ServerConfig>,
    consumers: Option<ConsumersConfig>,
}

impl Config {
    /// Reads a config out of its text.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        file::check_size(text.len())?;
        let report = Report::new(text);
        let config = report.tables().map(|root| Self::read(Section::root(&report, root.get_ref())));
        report.finish(config)
    }

    /// Reads the config file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigFile::load(path).map(ConfigFile::into_config)
    }

    /// Reads the config file at `path` as an earlier version of `current`: paths in it are meant from there.
    pub fn load_earlier(path: impl AsRef<Path>, current: &Path) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let folder = current.parent().unwrap_or(Path::new(""));
        file::parse_in(folder, path, &file::read(path, path)?)
    }

    /// Finds the config file and reads it; see [`Config::find_path`].
    pub fn find(explicit: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load(Self::find_path(explicit)?)
    }

    /// Where the config file is: the explicit path, else what `$TOLLWAY_CONFIG` names, else `./tollway.toml`.
    ///
    /// Where there is no such file, the error says where it was looked for ([`ConfigError::is_not_found`]).
    pub fn find_path(explicit: Option<&Path>) -> Result<PathBuf, ConfigError> {
        file::find(explicit, std::env::var_os(CONFIG_VARIABLE), Path::new("."))
    }

    /// Where meters live, if it says so. Memory is what a limiter uses otherwise.
    pub fn store(&self) -> Option<&StoreUrl> {
        self.store.as_ref()
    }

    /// A relative path in the file is meant from the file's folder, wherever the program runs: else two programs with one
    /// config would have two stores.
    fn in_folder(mut self, folder: &Path) -> Self {
        if let Some(StoreUrl::File(path)) = &mut self.store
            && folder != Path::new(".")
        {
            *path = folder.join(&*path);
        }
        if let Some(server) = &mut self.server {
            server.in_folder(folder);
        }
        if let Some(consumers) = &mut self.consumers {
            consumers.in_folder(folder);
        }
        self
    }

    /// How `tollway serve` is to serve, if it says so.
    pub fn server(&self) -> Option<&ServerConfig> {
        self.server.as_ref()
    }

    /// How consumers are limited, if it says so.
    pub fn consumers(&self) -> Option<&ConsumersConfig> {
        self.consumers.as_ref()
    }

    /// The policies, sorted by name.
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.policies
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&Arc<Policy>> {
        let found = self.policies.binary_search_by(|policy| policy.name().as_str().cmp(name)).ok()?;
        self.policies.get(found)
    }

    /// Where the amounts of policies are read from, for those that say so.
    pub fn sources(&self) -> &[PolicySource] {
        &self.sources
    }

    /// The vendors that are called, sorted by name. They are checked, and not used by this version yet.
    pub fn apis(&self) -> &[Api] {
        &self.apis
    }

    /// The api of this name.
    pub fn api(&self, name: &str) -> Option<&Api> {
        let found = self.apis.binary_search_by(|api| api.name().as_str().cmp(name)).ok()?;
        self.apis.get(found)
    }

    /// What is wrong goes to the report, so that one reading finds all of it.
    fn read(mut root: Section<'_>) -> Self {
        let store = root.section("store").and_then(store::read);
        let policies = root.named_sections("policies");
        // Also those with something wrong in them: an api that names one is not wrong, too.
        let mut names: Vec<&str> = policies.iter().map(|(name, _)| *name.get_ref()).collect();
        let named = |name: &str| policies.iter().find(|(known, _)| *known.get_ref() == name);
        if let Some((name, _)) = named(CONSUMERS_POLICY).filter(|_| root.has("consumers")) {
            let message = "with [consumers], the policy of this name is made of records";
            root.report().problem(name.span(), message, "give this one another name");
        }
        let apis = root.named_sections("apis").into_iter();
        let mut apis: Vec<Api> =
            apis.filter_map(|(name, section)| api::read(&name, section, &names)).collect();
        apis.sort_by(|one, other| one.name().cmp(other.name()));
        let read = policies.into_iter().filter_map(|(name, section)| {
            let (policy, source) = policy::read(&name, section)?;
            Some(((name, policy), source))
        });
        let (policies, sources): (Vec<_>, Vec<_>) = read.unzip();
        layout::check(store.as_ref(), &policies, root.report());
        let anonymous = policies.iter().find(|(name, _)| *name.get_ref() == ANONYMOUS_POLICY);
        let anonymous = anonymous.map(|(name, policy)| (name.span(), policy.holds_slots()));
        let mut policies: Vec<_> = policies.into_iter().map(|(_, policy)| policy).collect();
        let mut sources: Vec<_> = sources.into_iter().flatten().collect();
        sources.sort_by(|one, other| one.policy().cmp(other.policy()));
        let consumers = root.section("consumers").map(consumers::read);
        policies.extend(consumers.as_ref().and_then(|consumers| consumers.missing_policy(&policies)));
        if consumers.is_some() {
            names.extend([CONSUMERS_POLICY, ANONYMOUS_POLICY]);
        }
        let server = root.section("server").map(|section| server::read(section, &names, &policies));
        policies.extend(server.as_ref().and_then(|server| server.missing_policy(&policies)));
        policies.sort_by(|one, other| one.name().cmp(other.name()));
        let by_address = server.as_ref().is_some_and(|server| !server.subject_headers.is_empty());
        if let Some((place, true)) = anonymous.filter(|_| consumers.is_some() || by_address) {
            let message = "callers without credentials cannot have a concurrency limit: nobody says when their calls are done";
            root.report().problem(
                place,
                message,
                "limit them by time, as in `limits = [\"1000 requests / hour\"]`",
            );
        }
        for key in SECTIONS_TO_COME {
            root.not_yet(key);
        }
        root.finish();
        Self { store, policies, sources, apis, server, consumers }
    }
}
