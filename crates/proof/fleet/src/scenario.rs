//! What is simulated.

use std::time::Duration;

use tollway::{Policy, Span};
use tollway_core::{Lease, WhenStoreFails};

use crate::network::Region;

/// How long a simulation lasts: four windows.
pub const SECONDS: u64 = 40;

/// The window of the one limit.
pub const WINDOW_SECONDS: u64 = 10;

/// What each node may take in a window. It asks for ten: the limit is used up in the last second of each window.
const UNITS_PER_NODE: u64 = 9;

/// Longer than an answer is on its way, even if its first message is lost: a call goes out in the window that granted it.
const EDGE: Span = Span::from_millis(250);

/// Each node asks once in this time.
const GAP: Duration = Duration::from_secs(1);

/// When something happens, and when it is over: in the middle of the second and of the third window.
pub(crate) const EVENT_SECONDS: (u64, u64) = (13, 25);

/// How many nodes a server of a rack has.
const NODES_PER_SERVER: usize = 50;

/// How many callers a process has that serves the threads of one machine.
const CALLERS_PER_MACHINE: usize = 10;

/// What happens during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing.
    Nothing,
    /// One half of the nodes asks no more, the other half twice as often; then it is as before.
    DemandMoves,
    /// A server is killed, and started again later. Its nodes ask the next one meanwhile.
    ServerKilled,
    /// Half of the processes do not reach the store.
    RegionCutOff,
    /// No process reaches the store.
    StoreAway,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// How many callers there are. Each asks once a second.
    pub nodes: usize,
    /// How many processes decide. As many as there are nodes: each node decides for itself.
    pub servers: usize,
    /// Whether the policy has `lease = "on"`.
    pub lease: bool,
    /// `when_store_fails` of the policy.
    pub when_store_fails: WhenStoreFails,
    /// What happens.
    pub event: Event,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            nodes: 10_000,
            servers: 10_000 / NODES_PER_SERVER,
            lease: true,
            when_store_fails: WhenStoreFails::Closed,
            event: Event::Nothing,
        }
    }
}

/// The rows of the table for this many nodes.
pub fn all(nodes: usize) -> Vec<Scenario> {
    let racks = Scenario { nodes, servers: (nodes / NODES_PER_SERVER).max(2), ..Scenario::default() };
    let alone = Scenario { servers: nodes, ..racks };
    let local = Scenario { when_store_fails: WhenStoreFails::Local, ..racks };
    vec![
        Scenario { lease: false, ..alone },
        alone,
        Scenario { servers: nodes / CALLERS_PER_MACHINE, ..racks },
        Scenario { lease: false, ..racks },
        racks,
        Scenario { event: Event::DemandMoves, ..racks },
        Scenario { event: Event::ServerKilled, ..racks },
        Scenario { event: Event::RegionCutOff, ..racks },
        Scenario { event: Event::StoreAway, ..racks },
        Scenario { event: Event::RegionCutOff, ..local },
        Scenario { event: Event::StoreAway, ..local },
    ]
}

impl Scenario {
    /// Units a window.
    pub fn limit(&self) -> u64 {
        self.nodes as u64 * UNITS_PER_NODE
    }

    /// Whether no window may exceed the limit. Processes that decide without the store know what was left, and not what others
    /// take meanwhile.
    pub fn is_exact(&self) -> bool {
        let away = matches!(self.event, Event::RegionCutOff | Event::StoreAway);
        !away || self.when_store_fails == WhenStoreFails::Closed
    }

    pub(crate) fn policy(&self) -> Policy {
        let limit = format!("{} requests / {WINDOW_SECONDS} seconds", self.limit());
        let policy = Policy::new("api", [limit.as_str()]).expect("a limit");
        let lease = if self.lease { Lease::On } else { Lease::Off };
        policy.with_edge(EDGE).with_lease(lease).with_when_store_fails(self.when_store_fails)
    }

    /// The region of a server.
    pub(crate) fn region(&self, server: usize) -> Region {
        if server < self.servers / 2 { Region::First } else { Region::Second }
    }

    /// The server of a node.
    pub(crate) fn server(&self, node: usize) -> usize {
        node * self.servers / self.nodes
    }

    /// The mean time between two takes of a node, if it takes at all.
    pub(crate) fn gap(&self, region: Region, elapsed: Duration) -> Option<Duration> {
        let (from, until) = EVENT_SECONDS;
        let moved = self.event == Event::DemandMoves && (from..until).contains(&elapsed.as_secs());
        match region {
            _ if !moved => Some(GAP),
            Region::First => None,
            Region::Second => Some(GAP / 2),
        }
    }
}
