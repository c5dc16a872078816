//! The store: calls by [`Remote`], settings by a thread of their own.

use std::sync::Arc;
use std::time::Duration;

use tollway_core::{
    Answer, Clock, FollowedSettings, Operation, Setting, SettingChange, Settings, SettingsAnswer, Store,
    StoreFigures,
};
use tollway_remote::{Options, Remote};

use crate::counters::Counters;
use crate::link::DynamoLink;
use crate::options::{DynamoOptions, DynamoUrlError};
use crate::settings::SettingsClient;

/// A store in DynamoDB.
pub struct DynamoStore {
    remote: Remote,
    settings_client: SettingsClient,
    counters: Arc<Counters>,
}

/// Why there is no store.
#[derive(thiserror::Error)]
pub enum DynamoStoreError {
    /// The URL is wrong.
    #[error(transparent)]
    Url(#[from] DynamoUrlError),
    /// The system gave no thread.
    #[error("no thread for the store: {0}")]
    Thread(#[from] std::io::Error),
}

tollway_core::debug_as_display!(DynamoStoreError);

impl DynamoStore {
    /// A store at this URL; see [`DynamoOptions`]. It connects when it is first used.
    pub fn connect(url: &str) -> Result<Self, DynamoStoreError> {
        let options: DynamoOptions = url.parse()?;
        Self::start(DynamoLink::new(options.clone()), options)
    }

    /// For tests: a store whose time is this clock's, whatever it says. It repeats no denial, because that goes by real time.
    pub fn with_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Self, DynamoStoreError> {
        let options = DynamoOptions { denials: Duration::ZERO, ..url.parse()? };
        Self::start(DynamoLink::going_by(clock, options.clone()).without_clock_check(), options)
    }

    /// A store over this link.
    pub fn start(link: DynamoLink, options: DynamoOptions) -> Result<Self, DynamoStoreError> {
        let counters = link.counters();
        let (deadline, denials) = (options.deadline, options.denials);
        let remote = Remote::start("tollway-dynamodb", Arc::new(link), Options { deadline, denials })?;
        Ok(Self { remote, settings_client: SettingsClient::new(options), counters })
    }

    /// What was done so far, but for settings.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Store for DynamoStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.remote.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }

    fn figures(&self) -> StoreFigures {
        self.counters.figures()
    }
}

impl Settings for DynamoStore {
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
