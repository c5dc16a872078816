//! A Redis cluster that a test starts.

use std::sync::OnceLock;

use super::poll_until::START_TIMEOUT;
use super::{RedisServer, free_port, until};

/// How many slots a cluster divides.
const SLOTS: usize = 16_384;

/// Some masters that share all slots, without replicas.
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one of this many masters.
    pub fn start(masters: usize) -> Self {
        let nodes: Vec<(RedisServer, String)> = (0..masters).map(|_| start_node()).collect();
        for (index, (node, _)) in nodes.iter().enumerate() {
            let first = (index * SLOTS / masters).to_string();
            let last = ((index + 1) * SLOTS / masters - 1).to_string();
            node.expect_ok(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            // Nodes that meet with the same epoch need a while to resolve the conflict.
            node.expect_ok(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for (node, bus) in &nodes[1..] {
            let port = node.port().to_string();
            nodes[0].0.expect_ok(&["CLUSTER", "MEET", "127.0.0.1", &port, bus]);
        }
        let cluster = Self { nodes: nodes.into_iter().map(|(node, _)| node).collect() };
        cluster.wait_until_whole();
        cluster
    }

    /// A cluster of three masters shared by all tests of this process. Tests must leave it unchanged.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisCluster> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(3))
    }

    /// Its nodes; the first has the lowest slots.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The URL of each node.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// The node that a key lives on.
    pub fn node_of(&self, key: &str) -> &RedisServer {
        let slot: usize = self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).parse().expect("a slot");
        let masters = self.nodes.len();
        let index = (0..masters).find(|index| slot < (index + 1) * SLOTS / masters);
        &self.nodes[index.expect("every slot is some node's")]
    }

    /// Waits until every node knows all others and serves its slots, as after a start or a restart of a node.
    pub fn wait_until_whole(&self) {
        let known = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
        let whole = |node: &RedisServer| {
            let info = node.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains(&known)
        };
        until(START_TIMEOUT, || self.nodes.iter().all(whole).then_some(())).unwrap_or_else(|| {
            panic!("the cluster did not come together:\n{}", self.nodes[0].command(&["CLUSTER", "NODES"]))
        });
    }
}

/// A node that has not joined a cluster, and its cluster bus port.
fn start_node() -> (RedisServer, String) {
    let bus = free_port().to_string();
    let node = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    (node, bus)
}
