//! Combines config file, command line and profiles.

use tollway::{Config, Limiter, StoreUrl};
use tollway_config::ConfigFile;
use tollway_server::ServerConfig;

use super::Arguments;
use crate::api;
use crate::context::{Context, WholeConfig};
use crate::failure::Failure;
use crate::serve::send_incidents;

/// All settings of the gateway.
pub(super) struct Setup {
    pub(super) config: ServerConfig,
    /// The file to watch for changes.
    pub(super) file: Option<ConfigFile<WholeConfig>>,
    pub(super) limiter: Limiter,
    pub(super) store: StoreUrl,
    /// Whether the config or the command line names it.
    pub(super) named_store: bool,
}

impl Setup {
    pub(super) fn new(arguments: &Arguments, context: &Context) -> Result<Self, Failure> {
        let file = context.config_path_if_any()?.map(ConfigFile::<WholeConfig>::load).transpose()?;
        let nothing = Config::default();
        let limits = file.as_ref().map_or(&nothing, |file| file.config().limits());
        let listener = file.as_ref().and_then(|file| file.config().gateway()).cloned();
        let config = arguments.over(listener.unwrap_or_else(ServerConfig::gateway));
        let named = context.named_store().or(limits.store()).cloned();
        let (named_store, store) = (named.is_some(), named.unwrap_or_default());
        let mut builder = Limiter::builder().metrics().config(limits)?.store_at(&store)?;
        for name in arguments.apis.iter().filter(|name| limits.api(name).is_none()) {
            builder = builder.with_api(api::find(limits, name)?)?;
        }
        let limiter = builder.build();
        send_incidents(&limiter)?;
        Ok(Self { config, file, limiter, store, named_store })
    }
}
