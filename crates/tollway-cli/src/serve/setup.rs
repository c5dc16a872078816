//! What is served: by the config file and the command line, or an example where there is neither.

use tollway::{Config, Limiter, StoreUrl};
use tollway_config::ConfigFile;
use tollway_consumers::{ANONYMOUS_POLICY, ConsumersConfig};
use tollway_server::ServerConfig;

use super::Arguments;
use crate::context::{Context, WholeConfig};
use crate::failure::Failure;

/// The policy that is served where there is no config file.
const EXAMPLE_POLICY: &str = "example";
const EXAMPLE_LIMIT: &str = "5 requests / minute";

/// What is served.
pub(super) struct Setup {
    pub(super) config: ServerConfig,
    pub(super) consumers: Option<ConsumersConfig>,
    /// The file to follow.
    pub(super) file: Option<ConfigFile<WholeConfig>>,
    pub(super) limiter: Limiter,
    pub(super) store: StoreUrl,
    /// A policy to try.
    pub(super) policy: Option<String>,
}

impl Setup {
    pub(super) fn new(arguments: &Arguments, context: &Context) -> Result<Self, Failure> {
        let setup = match context.config_path_if_any()? {
            None => Self::example(context)?,
            Some(path) => Self::of_file(ConfigFile::load(path)?, context)?,
        };
        Ok(Self { config: arguments.over(setup.config), ..setup })
    }

    fn example(context: &Context) -> Result<Self, Failure> {
        let store = context.named_store().cloned().unwrap_or_default();
        let builder = Limiter::builder().metrics().policy(EXAMPLE_POLICY, [EXAMPLE_LIMIT])?;
        let limiter = builder.store_at(&store)?.build();
        let (config, policy) = (ServerConfig::default(), Some(EXAMPLE_POLICY.to_owned()));
        Ok(Self { config, consumers: None, file: None, limiter, store, policy })
    }

    fn of_file(file: ConfigFile<WholeConfig>, context: &Context) -> Result<Self, Failure> {
        let in_file = file.config();
        let config = in_file.server().cloned().unwrap_or_default();
        let consumers = in_file.consumers().cloned();
        // Not that of callers without credentials, which is asked for by `/v1/authorize`.
        let mut policies = in_file.limits().policies().iter().map(|policy| policy.name().as_str());
        let policy = policies.find(|name| *name != ANONYMOUS_POLICY).map(str::to_owned);
        let store = context.named_store().or(in_file.limits().store()).cloned().unwrap_or_default();
        let limiter = limiter(in_file.limits(), &store)?;
        Ok(Self { config, consumers, file: Some(file), limiter, store, policy })
    }
}

/// A limiter that leaves it to the command to follow the file, which says more than a limiter knows of.
fn limiter(config: &Config, store: &StoreUrl) -> Result<Limiter, Failure> {
    let policies = config.policies().iter().cloned();
    let builder = policies.into_iter().try_fold(Limiter::builder(), |all, policy| all.with_policy(policy))?;
    let limiter = builder.sources(config.sources()).metrics().store_at(store)?.build();
    // A store that does not answer must not keep the server from starting; it is asked again in the background.
    for read in [limiter.follow_settings().now(), limiter.sources_read().now()] {
        if let Err(error) = read {
            tracing::warn!(%error, "the limits that are set could not be read; the config file's are in force");
        }
    }
    Ok(limiter)
}
