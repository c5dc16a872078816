//! The store: a [`RedisLink`] driven by [`Remote`], and the limits set at run time.

use std::sync::Arc;

use tollway_core::{Answer, Clock, Fault, Operation, Retry, Settings, Store, StoreError};
use tollway_remote::{Link, Options, Remote};

use crate::address::{Address, Layout};
use crate::connection::Connections;
use crate::consumers::{self, ConsumersLink};
use crate::error::wrong;
use crate::keys::Keys;
use crate::link::RedisLink;
use crate::settings::RedisSettings;

/// A store in Redis.
pub struct RedisStore {
    remote: Remote,
    settings: RedisSettings,
    pub(crate) layout: Layout,
}

impl RedisStore {
    /// The store that this URL names; see [`Address`]. It connects when it is first used.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        match address.layout {
            Layout::Lines => Self::start(&address, RedisLink::new(&address)?),
            Layout::Consumers => Self::start(&address, ConsumersLink::new(&address)?),
        }
    }

    /// The same for tests: the store's time is this clock's, not the server's.
    pub fn with_test_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        if address.layout == Layout::Consumers {
            return Err(wrong("keys of the layout consumers expire by the server's clock".into()));
        }
        let link = RedisLink::with_test_clock(&address, clock)?;
        Self::start(&address, link)
    }

    fn start(address: &Address, link: impl Link) -> Result<Self, StoreError> {
        let options = Options { deadline: address.deadline };
        let failed = |error: std::io::Error| StoreError {
            fault: Fault::Store,
            retry: Retry::Safe,
            message: format!("no thread for the store: {error}"),
        };
        let connections = Connections::new(address, address.deadline)?;
        let settings = RedisSettings::start(&Keys::new(&address.prefix, 0), connections).map_err(failed)?;
        let remote = Remote::start("tollway-redis", Arc::new(link), options).map_err(failed)?;
        Ok(Self { remote, settings, layout: address.layout })
    }
}

impl Store for RedisStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if self.layout == Layout::Consumers
            && let Err(error) = batch.iter().try_for_each(consumers::check)
        {
            return consumers::refuse(&self.remote, error);
        }
        self.remote.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(&self.settings)
    }
}
