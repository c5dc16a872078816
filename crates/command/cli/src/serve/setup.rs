//! Combines config file and command line, or serves an example policy if there is no config file.

use tollway::{Config, Limiter, SetLimitError, StoreError, StoreUrl};
use tollway_config::ConfigFile;
use tollway_consumers::{ANONYMOUS_POLICY, ConsumersConfig};
use tollway_server::ServerConfig;

use super::Arguments;
use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};

/// The policy if there is no config file.
const EXAMPLE_POLICY: &str = "example";
const EXAMPLE_LIMIT: &str = "5 requests / minute";

/// All settings of the server.
pub(super) struct Setup {
    pub(super) config: ServerConfig,
    pub(super) consumers: Option<ConsumersConfig>,
    /// The file to watch for changes.
    pub(super) file: Option<ConfigFile<WholeConfig>>,
    pub(super) limiter: Limiter,
    pub(super) store: StoreUrl,
    /// Whether the config or the command line names it.
    pub(super) named_store: bool,
    /// A policy for the example command in the startup message.
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
        let named_store = context.named_store().is_some();
        Ok(Self { config, consumers: None, file: None, limiter, store, named_store, policy })
    }

    fn of_file(file: ConfigFile<WholeConfig>, context: &Context) -> Result<Self, Failure> {
        let in_file = file.config();
        let config = in_file.server().cloned().unwrap_or_default();
        let consumers = in_file.consumers().cloned();
        // Not the policy of anonymous callers, which only `/v1/authorize` uses.
        let limits = in_file.limits();
        let mut policies =
            limits.first_policy().into_iter().chain(limits.policies().iter().map(|policy| policy.name()));
        let policy = policies.find(|name| name.as_str() != ANONYMOUS_POLICY).map(ToString::to_string);
        let named = context.named_store().or(in_file.limits().store()).cloned();
        let (named_store, store) = (named.is_some(), named.unwrap_or_default());
        let limiter = limiter(in_file.limits(), &store, [])?;
        send_incidents(&limiter)?;
        Ok(Self { config, consumers, file: Some(file), limiter, store, named_store, policy })
    }
}

/// To the webhook and the topic of the config, if it names them.
#[cfg(feature = "webhook")]
pub(crate) fn send_incidents(limiter: &Limiter) -> Result<(), Failure> {
    tollway_notify::webhook::attach(limiter).map(drop).map_err(|error| Failure::new(Exit::CONFIG, error))
}

#[cfg(not(feature = "webhook"))]
pub(crate) fn send_incidents(limiter: &Limiter) -> Result<(), Failure> {
    let config = limiter.incidents_config();
    if config.webhook().is_none() && config.topic().is_none() {
        return Ok(());
    }
    let message = "the config has a webhook or a topic, and this command was built without them";
    Err(Failure::new(Exit::CONFIG, message).advise("build it with --features webhook"))
}

/// A limiter that does not watch the file: the command does, because the file has sections that a limiter ignores. For policies in
/// `outbound`, a refusal of the vendor is an incident with the last takes as evidence.
pub(crate) fn limiter<'p>(
    config: &Config,
    store: &StoreUrl,
    outbound: impl IntoIterator<Item = &'p str>,
) -> Result<Limiter, Failure> {
    let builder = Limiter::builder().config_at(config, store)?;
    let builder = outbound.into_iter().try_fold(builder, |all, policy| all.api_policy(policy))?;
    Ok(builder.metrics().build())
}

/// Reads the limits that are set in the store and by sources. A store that does not answer must not prevent the start: the
/// limiter retries in the background. Returns why the store cannot be reached, if it cannot.
pub(crate) async fn read_set_limits(limiter: &Limiter) -> Option<StoreError> {
    let mut unreachable = None;
    for read in [limiter.follow_settings().await, limiter.sources_read().await] {
        match read {
            // A store that keeps no limits has none to read.
            Ok(()) | Err(SetLimitError::NotKept) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot read the limits set in the store; using the config file's");
                if let SetLimitError::Store(error) = error {
                    unreachable.get_or_insert(error);
                }
            }
        }
    }
    unreachable
}
