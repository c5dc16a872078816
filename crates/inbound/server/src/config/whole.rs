//! The whole file, as far as a server reads it: limits, consumers, and the server itself.

use std::path::Path;

use tollway::Config;
use tollway_config::{ConfigError, ConfigFile, FromConfig, Section};
#[cfg(feature = "consumers")]
use tollway_consumers::{ConfigWithConsumers, ConsumersConfig};
use tollway_inbound::{ANONYMOUS_POLICY, CONSUMERS_POLICY, check_anonymous_policy};

use super::ServerConfig;

/// The sections of a config file for limits, consumers and the server.
///
/// ```
/// let config = tollway_server::ConfigWithServer::parse("[server]\nlisten = '127.0.0.1:9000'")?;
/// assert_eq!(config.server().map(|server| server.listen.to_string()).as_deref(), Some("127.0.0.1:9000"));
/// # Ok::<(), tollway::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigWithServer {
    limits: Config,
    #[cfg(feature = "consumers")]
    consumers: Option<ConsumersConfig>,
    server: Option<ServerConfig>,
    gateway: Option<ServerConfig>,
}

impl ConfigWithServer {
    /// Parses a config.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        tollway_config::parse(text)
    }

    /// Reads the config file at `path`.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        ConfigFile::load(path).map(ConfigFile::into_config)
    }

    /// Reads the config file at `path` as an earlier version of `current`: relative paths in it resolve as in `current`.
    pub fn load_earlier(path: impl AsRef<Path>, current: &Path) -> Result<Self, ConfigError> {
        tollway_config::load_earlier(path, current)
    }

    /// Finds the config file and reads it; see [`Config::find_path`].
    pub fn find(explicit: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load(Config::find_path(explicit)?)
    }

    /// Store, policies and apis, with the policy for callers without credentials where one is needed.
    pub fn limits(&self) -> &Config {
        &self.limits
    }

    /// Like [`limits`](Self::limits), by value.
    pub fn into_limits(self) -> Config {
        self.limits
    }

    /// The section `[server]`, if there is one.
    pub fn server(&self) -> Option<&ServerConfig> {
        self.server.as_ref()
    }

    /// The section `[gateway]`, if there is one.
    pub fn gateway(&self) -> Option<&ServerConfig> {
        self.gateway.as_ref()
    }

    /// The section `[consumers]`, if there is one.
    #[cfg(feature = "consumers")]
    pub fn consumers(&self) -> Option<&ConsumersConfig> {
        self.consumers.as_ref()
    }
}

impl FromConfig for ConfigWithServer {
    fn read(root: &mut Section<'_>) -> Self {
        #[cfg(feature = "consumers")]
        let (limits, consumers) = ConfigWithConsumers::read(root).into_parts();
        #[cfg(not(feature = "consumers"))]
        let (limits, consumers) = (Config::read(root), None::<()>);
        // Includes invalid policies, so that a rule that names one is not reported as well.
        let mut names: Vec<&str> = root.names("policies").into_iter().map(|name| *name.get_ref()).collect();
        if consumers.is_some() {
            names.extend([CONSUMERS_POLICY, ANONYMOUS_POLICY]);
        }
        names.sort_unstable();
        let server = root.section("server").map(|section| super::read(section, &names, limits.policies()));
        let gateway = root.section("gateway").map(ServerConfig::read_gateway);
        let anonymous = server.as_ref().and_then(ServerConfig::anonymous_policy);
        if anonymous.is_some() && consumers.is_none() {
            check_anonymous_policy(root, &limits);
        }
        let limits = match anonymous {
            Some(policy) => limits.with_policy(policy),
            None => limits,
        };
        Self {
            limits,
            #[cfg(feature = "consumers")]
            consumers,
            server,
            gateway,
        }
    }

    fn in_folder(&mut self, folder: &Path) {
        self.limits.in_folder(folder);
        #[cfg(feature = "consumers")]
        self.consumers.iter_mut().for_each(|consumers| consumers.in_folder(folder));
        self.server.iter_mut().chain(&mut self.gateway).for_each(|server| server.in_folder(folder));
    }
}
