//! The context of a command: config, store, time and output.

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tollway::config::{CONFIG_FILE, SharedBy};
use tollway::core::{Store, WhenStoreFails};
use tollway::{Clock, Config, Limiter, LimiterBuilder, Policy, Span, StoreUrl, Timestamp};
use tollway_memory::{BEHIND_MIN, WallClock};
use tollway_socket::SocketStore;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::output::Output;
pub(crate) use crate::whole_config::WholeConfig;

/// The context of a command.
pub(crate) struct Context {
    global: Global,
    output: Output,
    /// The clock of the limiter, once the command has one: it may know that the date of this machine is behind.
    clock: OnceLock<Arc<dyn Clock>>,
    said_behind: OnceLock<()>,
}

impl Context {
    pub(crate) fn new(global: Global, output: Output) -> Self {
        Self { global, output, clock: OnceLock::new(), said_behind: OnceLock::new() }
    }

    /// Its output.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// The current time: the store's, if the command has opened one that goes by another time than the date.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.get().map_or_else(|| WallClock.now(), |clock| clock.now())
    }

    /// How far the date of this machine is behind this time of the store or the jobs, if a human would notice.
    pub(crate) fn clock_behind(&self, time: Timestamp) -> Option<Span> {
        Some(time.since(WallClock.now())).filter(|behind| *behind > BEHIND_MIN)
    }

    /// Says so, once.
    pub(crate) fn warn_if_behind(&self, time: Timestamp) {
        if let Some(behind) = self.clock_behind(time)
            && self.said_behind.set(()).is_ok()
        {
            let behind = crate::humanize::span(behind);
            self.output.warning(format_args!(
                "the clock of this machine is {behind} behind what is stored, so time goes on from there: see tollway doctor"
            ));
        }
    }

    /// The limiter of this command, whose time is the command's from now on.
    fn built(&self, builder: LimiterBuilder) -> Limiter {
        let limiter = builder.build();
        let clock = self.clock.get_or_init(|| limiter.clock().clone());
        self.warn_if_behind(clock.now());
        limiter
    }

    /// The path of the config file; an error if there is none.
    pub(crate) fn config_path(&self) -> Result<PathBuf, Failure> {
        Config::find_path(self.global.config.as_deref()).map_err(|error| {
            let begin = error.is_not_found() && !self.config_is_named();
            let failure = Failure::from(error);
            if begin { failure.advise(config_advice("")) } else { failure }
        })
    }

    /// The path of the config file; `None` if none is given and the default does not exist.
    pub(crate) fn config_path_if_any(&self) -> Result<Option<PathBuf>, Failure> {
        match Config::find_path(self.global.config.as_deref()) {
            Err(error) if error.is_not_found() && !self.config_is_named() => Ok(None),
            path => Ok(Some(path?)),
        }
    }

    /// The store given with `--store`.
    pub(crate) fn named_store(&self) -> Option<&StoreUrl> {
        self.global.store.as_ref()
    }

    /// The config, for a command that also accepts `--limit`.
    pub(crate) fn config_or_limits(&self) -> Result<Config, Failure> {
        let or = ", or give the limit: --limit \"200 requests / minute\"";
        self.config().map_err(|failure| match failure.advice() {
            Some(_) => failure.advise(config_advice(or)),
            None => failure,
        })
    }

    fn config_is_named(&self) -> bool {
        let variable = env::var_os(tollway::config::CONFIG_VARIABLE).is_some_and(|path| !path.is_empty());
        self.global.config.is_some() || variable
    }

    /// The limits of the config, after checking all sections; an error if there is no config.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        Ok(WholeConfig::load(self.config_path()?)?.into_limits())
    }

    /// The config; empty if none is given and the default does not exist, for commands with `--limit`.
    pub(crate) fn config_if_any(&self) -> Result<Config, Failure> {
        match WholeConfig::find(self.global.config.as_deref()) {
            Err(error) if error.is_not_found() && !self.config_is_named() => Ok(Config::default()),
            config => Ok(config?.into_limits()),
        }
    }

    /// A limiter on the commands' store with the config's policies.
    pub(crate) fn limiter(&self, config: &Config) -> Result<Limiter, Failure> {
        Ok(self.built(self.builder(config)?))
    }

    /// The same, counting, for what looks at the limits of others.
    #[cfg(feature = "top")]
    pub(crate) fn counting_limiter(&self, config: &Config) -> Result<Limiter, Failure> {
        Ok(self.built(self.builder(config)?.metrics()))
    }

    /// When to use colours.
    #[cfg(feature = "top")]
    pub(crate) fn color(&self) -> crate::cli::Color {
        self.global.color
    }

    /// The same with an api, which may be a profile that the config does not name.
    #[cfg(feature = "client")]
    pub(crate) fn limiter_with_api(
        &self,
        config: &Config,
        api: tollway::config::Api,
    ) -> Result<Limiter, Failure> {
        let limiter = self.built(self.builder(config)?.with_api(api)?.incidents(config.incidents()));
        #[cfg(feature = "webhook")]
        tollway_notify::webhook::attach(&limiter)
            .map_err(|error| Failure::new(crate::failure::Exit::CONFIG, error))?;
        Ok(limiter)
    }

    fn builder(&self, config: &Config) -> Result<LimiterBuilder, Failure> {
        let mut builder = Limiter::builder().sources(config.sources());
        if let Some(folder) = self.sources_folder(config).filter(|_| !config.sources().is_empty()) {
            builder = builder.keep_sources_in(folder);
        }
        self.with_policies(builder, config, config.policies().iter().cloned())
    }

    /// The folder beside the state file that keeps amounts for the next command. None if there is no state folder.
    fn sources_folder(&self, config: &Config) -> Option<PathBuf> {
        let state = match self.store(config).ok()? {
            StoreUrl::File(path) => path,
            _ => state_file().ok()?,
        };
        let mut folder = state.into_os_string();
        folder.push(".sources");
        Some(folder.into())
    }

    /// A limiter with one policy from `--limit`, which limits set in the store do not override.
    pub(crate) fn limiter_with(&self, config: &Config, policy: Policy) -> Result<Limiter, Failure> {
        let builder = self.with_policies(Limiter::builder().fixed_limits(), config, [Arc::new(policy)])?;
        Ok(self.built(builder))
    }

    fn with_policies(
        &self,
        builder: LimiterBuilder,
        config: &Config,
        policies: impl IntoIterator<Item = Arc<Policy>>,
    ) -> Result<LimiterBuilder, Failure> {
        let mut builder = match self.server_store(config) {
            Some(store) => {
                self.output.note("asking tollway serve, which counts in its memory");
                builder.store(store)
            }
            None => builder.store_at(&self.store(config)?)?,
        };
        for policy in policies {
            builder = builder.with_policy(strict(&policy))?;
        }
        Ok(builder)
    }

    /// The file of incidents: the config's, else beside the file of the store, else in the user's state folder.
    pub(crate) fn incidents_file(&self) -> Result<PathBuf, Failure> {
        let config = self.config_if_any()?;
        let store = self.named_store().or(config.store());
        config.incidents().file_to_read(store).ok_or_else(|| {
            if config.incidents().is_off() {
                Failure::new(
                    Exit::CONFIG,
                    "no incidents are kept: the config says `file = \"off\"` in [incidents]",
                )
                .advise("remove that line, or name a file")
            } else {
                Failure::new(
                    Exit::CONFIG,
                    "no folder for incidents: neither $XDG_STATE_HOME nor $HOME is set",
                )
                .advise("name a file: `file = \"PATH\"` in [incidents]")
            }
        })
    }

    /// The memory of a `tollway serve` without a store, which counts for commands that name none either.
    fn server_store(&self, config: &Config) -> Option<Arc<dyn Store>> {
        if self.global.store.is_some() || config.store().is_some() {
            return None;
        }
        match SocketStore::connect(&server_socket()?) {
            Ok(store) => store.map(|store| Arc::new(store) as Arc<dyn Store>),
            Err(error) => {
                self.output.warning(format_args!("cannot ask tollway serve for its counts: {error}"));
                None
            }
        }
    }

    /// The store: from `--store`, else the config's, else a file in the user's state folder.
    pub(crate) fn store(&self, config: &Config) -> Result<StoreUrl, Failure> {
        match self.global.store.as_ref().or(config.store()) {
            Some(store) if store.kind().shared_by == SharedBy::Process => Err(Failure::new(
                Exit::CONFIG,
                "the store memory: ends with this command, so nothing would be limited",
            )
            .advise("omit the store to use a file in your state folder, or name one: --store file:PATH")),
            Some(store) => Ok(store.clone()),
            None => state_file().map(StoreUrl::File),
        }
    }
}

/// A command lives for one take, so it has no local meters for a share of the limit: under `local` the take fails
/// instead.
fn strict(policy: &Policy) -> Policy {
    match policy.when_store_fails() {
        WhenStoreFails::Local => policy.clone().with_when_store_fails(WhenStoreFails::Closed),
        WhenStoreFails::Open | WhenStoreFails::Closed => policy.clone(),
    }
}

/// Where a `tollway serve` without a store answers commands. None if there is no state folder.
pub(crate) fn server_socket() -> Option<PathBuf> {
    tollway::config::state_file().map(|state| state.with_file_name("server.socket"))
}

fn state_file() -> Result<PathBuf, Failure> {
    tollway::config::state_file().ok_or_else(|| {
        Failure::new(Exit::STORE, "no folder for the store: neither $XDG_STATE_HOME nor $HOME is set")
            .advise("name a file: --store file:PATH")
    })
}

fn config_advice(or: &str) -> String {
    format!("put `[policies.adobe]` and `limits = [\"200 requests / minute\"]` into {CONFIG_FILE}{or}")
}
