//! The store: a [`RedisLink`] driven by [`Remote`], and the limits set at run time.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::time::timeout;
use tollway_core::{
    AccountListAnswer, Answer, Charge, Clock, Fault, Name, Operation, Part, Retry, Settings, Store,
    StoreError, StoreFigures, Subject,
};
use tollway_remote::{Link, Options, Remote};

use crate::account_list;
use crate::address::{Address, Kind, Layout};
use crate::cluster::NodeParts;
use crate::consumers::{self, ConsumersLink};
use crate::error::wrong;
use crate::keys::Keys;
use crate::link::RedisLink;
use crate::node::Node;
use crate::room::Room;
use crate::servers::Servers;
use crate::settings::RedisSettings;

/// A store in Redis.
pub struct RedisStore {
    remote: Remote,
    settings: RedisSettings,
    pub(crate) layout: Layout,
    /// Makes the keys of accounts, if they can be listed: `SCAN` sees only one node of a Cluster.
    listed: Option<Keys>,
    room: Arc<Room>,
    /// The nodes of a Cluster.
    parts: Option<NodeParts>,
}

impl RedisStore {
    /// The store that this URL names; see [`Address`]. It connects when it is first used. Only the layout `consumers` asks
    /// the server at once, and fails if it answers and is too old.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        match address.layout {
            Layout::Lines => {
                let link = RedisLink::new(&address)?;
                Self::start_lines(&address, address.denials, link)
            }
            Layout::Consumers => {
                let link = ConsumersLink::new(&address)?;
                refuse_old_server(&address)?;
                // Other programs count in these keys and delete them: each take reads them.
                Self::start(&address, Duration::ZERO, Arc::clone(link.room()), None, link)
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
        Self::start_lines(&address, Duration::ZERO, link)
    }

    fn start_lines(address: &Address, denials: Duration, link: RedisLink) -> Result<Self, StoreError> {
        Self::start(address, denials, Arc::clone(link.room()), link.parts().cloned(), link)
    }

    fn start(
        address: &Address,
        denials: Duration,
        room: Arc<Room>,
        parts: Option<NodeParts>,
        link: impl Link,
    ) -> Result<Self, StoreError> {
        let options = Options { deadline: address.deadline, denials };
        let servers = Servers::new(address, address.deadline)?;
        let keys = Keys::new(&address.prefix, 0);
        let settings = RedisSettings::start(&keys, address.layout, servers).map_err(no_thread)?;
        let remote = Remote::start("tollway-redis", Arc::new(link), options).map_err(no_thread)?;
        let can_list = address.layout == Layout::Lines && !matches!(address.kind, Kind::Cluster);
        Ok(Self { remote, settings, layout: address.layout, listed: can_list.then_some(keys), room, parts })
    }
}

/// Fails if a server answers within the deadline and is too old for the layout. Each later connection is checked as well.
fn refuse_old_server(address: &Address) -> Result<(), StoreError> {
    let deadline = address.deadline;
    let node = Node::only(address, deadline)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    // On a thread of its own, because the caller may be inside a runtime.
    let check = thread::Builder::new()
        .name("tollway-version".to_owned())
        .spawn(move || runtime.block_on(async { timeout(deadline, node.too_old()).await.ok().flatten() }))
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
            return consumers::refuse(&self.remote, error);
        }
        self.remote.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(&self.settings)
    }

    fn accounts(&self, policy: Option<&Name>, at_most: usize) -> Option<AccountListAnswer> {
        let keys = self.listed.clone()?;
        Some(account_list::list(self.settings.clone(), keys, policy, at_most))
    }

    fn part_of(&self, charge: &Charge) -> Part {
        self.parts.as_ref().map_or(Part::WHOLE, |parts| parts.part_of(&charge.key()))
    }

    fn subject_on(&self, part: &Part) -> Option<Subject> {
        match &self.parts {
            Some(parts) => parts.subject_on(part),
            None => (*part == Part::WHOLE).then_some(Subject::SHARED),
        }
    }

    fn heeds_new_accounts(&self) -> bool {
        true
    }

    fn figures(&self) -> StoreFigures {
        self.room.figures()
    }
}
