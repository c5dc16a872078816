//! The nodes of a Cluster: each has a connection of its own, so that one which fails delays no calls to the others, and calls
//! to one node go together.
//!
//! Where the slots are is asked when the first call needs it, and again in the background when a node fails or says that a
//! slot has moved. Calls go on meanwhile by what is known.

mod parts;
mod redirect;
pub(crate) mod slot;
mod slot_ranges;
mod topology;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tollway_core::StoreError;

pub(crate) use parts::NodeParts;
pub(crate) use redirect::Redirect;
pub(crate) use slot_ranges::Host;
use slot_ranges::SlotRange;
use topology::Topology;

use crate::address::Address;
use crate::error::{answered, not_answered, not_understood};
use crate::link::is_broken;
use crate::node::{Node, name_of};

/// How many nodes are asked at the same time where the slots are: the first answer counts.
const ASKED_AT_ONCE: usize = 3;

/// The shortest time between two such questions in the background.
const REFRESHED_EVERY_MIN: Duration = Duration::from_millis(100);

/// A Cluster, as far as it is known.
pub(crate) struct Cluster {
    address: Address,
    timeout: Duration,
    topology: RwLock<Arc<Topology>>,
    /// Held while the slots are asked for the first time.
    first: Mutex<()>,
    is_refreshing: AtomicBool,
    /// Counts the questions, so that each begins with another node.
    turn: AtomicUsize,
}

impl Cluster {
    /// Connects nowhere yet. Nothing waits for a node longer than `timeout`.
    pub(crate) fn new(address: &Address, timeout: Duration) -> Self {
        Self {
            address: address.clone(),
            timeout,
            topology: RwLock::default(),
            first: Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
        }
    }

    /// What is known.
    fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.topology.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Topology)) {
        let mut topology = self.topology.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut topology));
    }

    /// The node that has this slot, if that is known.
    pub(crate) fn known_node_of(&self, slot: u16) -> Option<Arc<Node>> {
        self.topology().owner(slot).cloned()
    }

    /// Whether the node with this name has any slot.
    pub(crate) fn has_slots(&self, name: &str) -> bool {
        self.topology().has_slots(name)
    }

    /// All nodes that are known to have slots.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.topology().nodes().to_vec()
    }

    /// The node that has this slot; the first call waits until the slots are known.
    pub(crate) async fn node_of(self: &Arc<Self>, slot: u16) -> Result<Arc<Node>, StoreError> {
        if let Some(node) = self.known_node_of(slot) {
            return Ok(node);
        }
        let _first = self.first.lock().await;
        if self.topology().is_empty() {
            self.ask_for_slots().await?;
        } else {
            self.refresh();
        }
        self.known_node_of(slot).ok_or_else(|| answered("CLUSTERDOWN", "no node has the slot of this key"))
    }

    /// Asks again where the slots are, in the background, unless that is under way.
    pub(crate) fn refresh(self: &Arc<Self>) {
        if self.topology().is_empty() || self.is_refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let cluster = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = cluster.ask_for_slots().await {
                tracing::debug!(%error, "no node of the Cluster says where its slots are");
            }
            sleep(REFRESHED_EVERY_MIN).await;
            cluster.is_refreshing.store(false, Ordering::Release);
        });
    }

    /// Notes where a slot has moved to. Returns the node to ask once, if the slot is only on its way.
    pub(crate) fn follow(self: &Arc<Self>, redirect: Redirect) -> Option<Arc<Node>> {
        match redirect {
            Redirect::Moved(slot, host) => {
                let node = self.node_at(&host)?;
                self.change(|topology| topology.move_slot(slot, node));
                self.refresh();
                None
            }
            Redirect::Ask(host) => {
                let node = self.node_at(&host)?;
                self.change(|topology| topology.add(Arc::clone(&node)));
                Some(node)
            }
        }
    }

    /// The node at this address, with its connection if it is known.
    fn node_at(&self, host: &Host) -> Option<Arc<Node>> {
        if let Some(known) = self.topology().node(&name_of(host)) {
            return Some(Arc::clone(known));
        }
        self.new_node(host)
    }

    fn new_node(&self, host: &Host) -> Option<Arc<Node>> {
        Node::at(host, &self.address, self.timeout).ok().map(Arc::new)
    }

    /// Asks the nodes, a few at a time, until one says where the slots are.
    async fn ask_for_slots(&self) -> Result<(), StoreError> {
        let mut hosts = self.topology().hosts();
        hosts.extend(
            self.address.hosts.iter().filter(|host| !hosts.contains(host)).cloned().collect::<Vec<_>>(),
        );
        let turn = self.turn.fetch_add(1, Ordering::Relaxed).checked_rem(hosts.len()).unwrap_or(0);
        hosts.rotate_left(turn);
        let mut failed = not_understood("no host was given");
        for some in hosts.chunks(ASKED_AT_ONCE) {
            let mut asked: FuturesUnordered<_> = some.iter().map(|host| self.slots_from(host)).collect();
            while let Some(answer) = asked.next().await {
                match answer {
                    Ok(ranges) => {
                        self.learn(&ranges);
                        return Ok(());
                    }
                    Err(error) => failed = error,
                }
            }
        }
        Err(failed)
    }

    async fn slots_from(&self, host: &Host) -> Result<Vec<SlotRange>, StoreError> {
        let node = self.node_at(host).ok_or_else(|| not_understood("a node's address"))?;
        let mut connection = node.get().await?;
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let answer = connection.send(vec![slots]).await.pop();
        let answer = answer.ok_or_else(|| not_understood("no answer at all"))?;
        if is_broken(&answer) {
            node.give_up(&connection).await;
        }
        match answer {
            Ok(Value::ServerError(error)) => Err(answered(error.code(), error.details().unwrap_or_default())),
            Ok(answer) => {
                let read = slot_ranges::read(answer, &host.0);
                read.ok_or_else(|| answered("CLUSTERDOWN", "the node says that no slot is anywhere"))
            }
            Err(error) => Err(not_answered(&error)),
        }
    }

    /// Nodes that are still there keep their connections; those that left are forgotten.
    fn learn(&self, ranges: &[SlotRange]) {
        self.change(|topology| *topology = topology.after(ranges, |host| self.new_node(host)));
    }
}
