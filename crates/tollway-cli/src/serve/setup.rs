//! What is served: by the config file and the command line, or an example where there is neither.

use tollway::{ANONYMOUS_POLICY, ConfigFile, ConsumersConfig, Limiter, ServerConfig, StoreUrl};

use super::Arguments;
use crate::context::Context;
use crate::failure::Failure;

/// The policy that is served where there is no config file.
const EXAMPLE_POLICY: &str = "example";
const EXAMPLE_LIMIT: &str = "5 requests / minute";

/// What is served.
pub(super) struct Setup {
    pub(super) config: ServerConfig,
    pub(super) consumers: Option<ConsumersConfig>,
    /// The file to follow.
    pub(super) file: Option<ConfigFile>,
    pub(super) limiter: Limiter,
    pub(super) store: StoreUrl,
    /// A policy to try.
    pub(super) policy: Option<String>,
    /// Who takes over policies that change in the file.
    pub(super) follows: Follows,
}

/// Who takes over policies that change in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// The limiter, by itself.
    Limiter,
    /// The command: it was told to use another store than the file's, and made the limiter by hand.
    Command,
}

impl Setup {
    pub(super) fn new(arguments: &Arguments, context: &Context) -> Result<Self, Failure> {
        let setup = match context.config_path_if_any()? {
            None => Self::example(context)?,
            Some(path) => Self::of_file(ConfigFile::load(path)?, context)?,
        };
        Ok(setup.with(arguments))
    }

    fn example(context: &Context) -> Result<Self, Failure> {
        let store = context.named_store().cloned().unwrap_or_default();
        let builder = Limiter::builder().metrics().policy(EXAMPLE_POLICY, [EXAMPLE_LIMIT])?;
        let limiter = builder.store_at(&store)?.build();
        let (config, policy) = (ServerConfig::default(), Some(EXAMPLE_POLICY.to_owned()));
        let follows = Follows::Limiter;
        Ok(Self { config, consumers: None, file: None, limiter, store, policy, follows })
    }

    fn of_file(file: ConfigFile, context: &Context) -> Result<Self, Failure> {
        let in_file = file.config();
        let config = in_file.server().cloned().unwrap_or_default();
        let consumers = in_file.consumers().cloned();
        // Not that of callers without credentials, which is asked for by `/v1/authorize`.
        let mut policies = in_file.policies().iter().map(|policy| policy.name().as_str());
        let policy = policies.find(|name| *name != ANONYMOUS_POLICY).map(str::to_owned);
        let (limiter, store, follows) = match context.named_store() {
            None => {
                let store = in_file.store().cloned().unwrap_or_default();
                (Limiter::builder().metrics().file_blocking(file.path())?, store, Follows::Limiter)
            }
            Some(store) => {
                let policies = in_file.policies().iter().cloned();
                let builder = policies
                    .into_iter()
                    .try_fold(Limiter::builder().metrics(), |all, policy| all.with_policy(policy))?;
                (builder.store_at(store)?.build(), store.clone(), Follows::Command)
            }
        };
        Ok(Self { config, consumers, file: Some(file), limiter, store, policy, follows })
    }

    /// The command line beats the file.
    fn with(mut self, arguments: &Arguments) -> Self {
        if let Some(listen) = &arguments.listen {
            self.config.listen = listen.clone();
        }
        if arguments.admin.is_some() {
            self.config.admin.clone_from(&arguments.admin);
        }
        if let Some(workers) = arguments.workers {
            self.config.workers = Some(workers.into());
        }
        self
    }
}
