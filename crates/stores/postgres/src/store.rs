//! The store: calls by [`Remote`], settings by a thread of their own.

use std::sync::Arc;
use std::time::Duration;

use tollway_core::{
    AccountListAnswer, Answer, Clock, FollowedSettings, Name, Operation, Setting, SettingChange, Settings,
    SettingsAnswer, Store,
};
use tollway_remote::{Options, Remote};

use crate::link::PostgresLink;
use crate::options::{PostgresOptions, PostgresUrlError};
use crate::settings::SettingsClient;

/// A store in Postgres.
pub struct PostgresStore {
    remote: Remote,
    settings_client: SettingsClient,
}

/// Why there is no store.
#[derive(thiserror::Error)]
pub enum PostgresStoreError {
    /// The URL is wrong.
    #[error(transparent)]
    Url(#[from] PostgresUrlError),
    /// The system gave no thread.
    #[error("no thread for the store: {0}")]
    Thread(#[from] std::io::Error),
}

tollway_core::debug_as_display!(PostgresStoreError);

impl PostgresStore {
    /// A store at this URL; see [`PostgresOptions`]. It connects when it is first used.
    pub fn connect(url: &str) -> Result<Self, PostgresStoreError> {
        let options: PostgresOptions = url.parse()?;
        let denials = options.denials;
        Self::start(options, denials, |link| link)
    }

    /// For tests: a store whose time is this clock's. It repeats no denial, because that goes by real time.
    pub fn with_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Self, PostgresStoreError> {
        Self::start(url.parse()?, Duration::ZERO, |link| link.with_clock(clock))
    }

    fn start(
        options: PostgresOptions,
        denials: Duration,
        change: impl FnOnce(PostgresLink) -> PostgresLink,
    ) -> Result<Self, PostgresStoreError> {
        let deadline = options.deadline;
        let settings_client = SettingsClient::new(options.clone());
        let link = Arc::new(change(PostgresLink::new(options)));
        let remote = Remote::start("tollway-postgres", link, Options { deadline, denials })?;
        Ok(Self { remote, settings_client })
    }
}

impl Store for PostgresStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.remote.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }

    fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Option<AccountListAnswer> {
        Some(self.settings_client.accounts(policy, at_most))
    }
}

impl Settings for PostgresStore {
    fn settings(&self) -> SettingsAnswer<Vec<Setting>> {
        self.settings_client.read()
    }

    fn follow(&self, registers: bool) -> SettingsAnswer<FollowedSettings> {
        self.settings_client.follow(registers)
    }

    fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        self.settings_client.change(change)
    }
}
