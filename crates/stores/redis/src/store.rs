//! The store: a [`RedisLink`] driven by [`Remote`], and the limits set at run time.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::time::timeout;
use tollway_core::{
    AccountListAnswer, Answer, Clock, Fault, Name, Operation, Retry, Settings, Store, StoreError,
    StoreFigures,
};
use tollway_remote::{Link, Options, Remote};

use crate::account_list;
use crate::across_slots::AcrossSlots;
use crate::address::{Address, Kind, Layout};
use crate::connection::Connections;
use crate::consumers::{self, ConsumersLink};
use crate::error::wrong;
use crate::keys::Keys;
use crate::link::RedisLink;
use crate::refusal::refuse;
use crate::room::Room;
use crate::settings::RedisSettings;

/// A store in Redis.
pub struct RedisStore {
    remote: Arc<Remote>,
    /// Present if the store is divided into slots.
    across_slots: Option<AcrossSlots<Remote>>,
    settings: RedisSettings,
    pub(crate) layout: Layout,
    /// Makes the keys of accounts, if they can be listed: `SCAN` sees only one node of a Cluster.
    listed: Option<Keys>,
    room: Arc<Room>,
}

impl RedisStore {
    /// The store that this URL names; see [`Address`]. It connects when it is first used. Only the layout `consumers` asks
    /// the server at once, and fails if it answers and is too old.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        match address.layout {
            Layout::Lines => {
                let link = RedisLink::new(&address)?;
                Self::start(&address, address.denials, Arc::clone(link.room()), link)
            }
            Layout::Consumers => {
                let link = ConsumersLink::new(&address)?;
                refuse_old_server(&address)?;
                // Other programs count in these keys and delete them: each take reads them.
                Self::start(&address, Duration::ZERO, Arc::clone(link.room()), link)
            }
        }
    }

    /// The same for tests: the store's time is this clock's, not the server's. It repeats no denial, because that goes by real
    /// time.
    pub fn with_test_clock(url: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        if address.layout == Layout::Consumers {
            return Err(wrong("keys of the layout consumers expire by the server's clock".into()));
        }
        let link = RedisLink::with_test_clock(&address, clock)?;
        Self::start(&address, Duration::ZERO, Arc::clone(link.room()), link)
    }

    fn start(
        address: &Address,
        denials: Duration,
        room: Arc<Room>,
        link: impl Link,
    ) -> Result<Self, StoreError> {
        let options = Options { deadline: address.deadline, denials };
        let connections = Connections::new(address, address.deadline)?;
        let keys = Keys::new(&address.prefix, 0);
        let settings = RedisSettings::start(&keys, address.layout, connections).map_err(no_thread)?;
        let remote = Remote::start("tollway-redis", Arc::new(link), options).map_err(no_thread)?;
        let remote = Arc::new(remote);
        let across_slots =
            address.is_divided().then(|| AcrossSlots::new(Arc::clone(&remote), address.across_slots));
        let can_list = address.layout == Layout::Lines && !matches!(address.kind, Kind::Cluster);
        let listed = can_list.then_some(keys);
        Ok(Self { remote, across_slots, settings, layout: address.layout, listed, room })
    }
}

/// Fails if a server answers within the deadline and is too old for the layout. Each later connection is checked as well.
fn refuse_old_server(address: &Address) -> Result<(), StoreError> {
    let deadline = address.deadline;
    let connections = Connections::new(address, deadline)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    // On a thread of its own, because the caller may be inside a runtime.
    let check = thread::Builder::new()
        .name("tollway-version".to_owned())
        .spawn(move || {
            runtime.block_on(async { timeout(deadline, connections.too_old()).await.ok().flatten() })
        })
        .map_err(no_thread)?;
    check.join().ok().flatten().map_or(Ok(()), Err)
}

fn no_thread(error: std::io::Error) -> StoreError {
    let message = format!("no thread for the store: {error}");
    StoreError { fault: Fault::Store, retry: Retry::Safe, message }
}

impl Store for RedisStore {
    fn apply(&self, batch: &[Operation]) -> Answer {
        if self.layout == Layout::Consumers
            && let Err(error) = batch.iter().try_for_each(consumers::check)
        {
            return refuse(&*self.remote, error);
        }
        match &self.across_slots {
            Some(across_slots) => across_slots.apply(batch),
            None => self.remote.apply(batch),
        }
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(&self.settings)
    }

    fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Option<AccountListAnswer> {
        let keys = self.listed.clone()?;
        Some(account_list::list(self.settings.clone(), keys, policy, at_most))
    }

    fn heeds_new_accounts(&self) -> bool {
        true
    }

    fn figures(&self) -> StoreFigures {
        self.room.figures()
    }
}
