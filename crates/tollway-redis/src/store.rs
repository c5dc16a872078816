//! The store: a [`RedisLink`] driven by [`Remote`], and the limits that are data.

use std::sync::Arc;

use tollway_core::{Answer, Clock, Fault, Operation, Retry, Settings, Store, StoreError};
use tollway_remote::{Options, Remote};

use crate::address::Address;
use crate::connection::Connections;
use crate::keys::Keys;
use crate::link::RedisLink;
use crate::settings::RedisSettings;

/// A store in Redis.
pub struct RedisStore {
    remote: Remote,
    settings: RedisSettings,
}

impl RedisStore {
    /// The store that this URL names; see [`Address`]. It connects when it is first used.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let link = RedisLink::new(&address)?;
        Self::start(&address, link)
    }

    /// The same for tests: the store's time is this clock's, not the server's.
    pub fn with_test_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let link = RedisLink::with_test_clock(&address, clock)?;
        Self::start(&address, link)
    }

    fn start(address: &Address, link: RedisLink) -> Result<Self, StoreError> {
        let options = Options { deadline: address.deadline };
        let failed = |error: std::io::Error| StoreError {
            fault: Fault::Store,
            retry: Retry::Safe,
            message: format!("no thread for the store: {error}"),
        };
        let connections = Connections::new(address, address.deadline)?;
        let settings = RedisSettings::start(&Keys::new(&address.prefix, 0), connections).map_err(failed)?;
        let remote = Remote::start("tollway-redis", Arc::new(link), options).map_err(failed)?;
        Ok(Self { remote, settings })
    }
}

impl Store for RedisStore {
    fn apply(&self, batch: &[Operation<'_>]) -> Answer {
        self.remote.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(&self.settings)
    }
}
