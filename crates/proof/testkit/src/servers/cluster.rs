//! A Redis cluster that a test starts.

use std::sync::OnceLock;

use super::patience::PATIENCE;
use super::{RedisServer, free_port, until};

/// How many slots a cluster divides.
const SLOTS: usize = 16_384;

/// What lets the other masters go on while one is away, and one that was killed come back with what it had.
const INDEPENDENT: &[&str] =
    &["--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "always"];

/// Some masters that share all slots, with or without a replica each.
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    replicas: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one of this many masters.
    pub fn start(masters: usize) -> Self {
        Self::start_with(masters, &[])
    }

    /// The same, of masters that go on while others are away, and keep their data when they are killed.
    pub fn start_independent(masters: usize) -> Self {
        Self::start_with(masters, INDEPENDENT)
    }

    /// The same, and each master has a replica. None takes over by itself while a test runs.
    pub fn start_with_replicas(masters: usize) -> Self {
        let mut cluster = Self::start_independent(masters);
        for master in &cluster.nodes {
            let (replica, _) = start_node(INDEPENDENT);
            let (port, bus) = (master.port().to_string(), bus_of(master));
            replica.expect_ok(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
            let id = master.command(&["CLUSTER", "MYID"]);
            let follow = || (replica.command(&["CLUSTER", "REPLICATE", &id]) == "OK").then_some(());
            until(PATIENCE, follow).expect("a replica knows its master");
            cluster.replicas.push(replica);
        }
        cluster.wait_until_whole();
        cluster
    }

    /// Makes the replica of a master, by index, the master of its slots, and waits until the other masters know.
    pub fn promote_replica_of(&self, index: usize) -> &RedisServer {
        let replica = &self.replicas[index];
        replica.expect_ok(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        let place = format!("127.0.0.1\n{}\n", replica.port());
        let others = || self.nodes.iter().enumerate().filter(|(other, _)| *other != index);
        let first = index * SLOTS / self.nodes.len();
        let last = (index + 1) * SLOTS / self.nodes.len() - 1;
        let range = format!("{first}\n{last}\n{place}");
        let knows = |(_, node): (usize, &RedisServer)| node.command(&["CLUSTER", "SLOTS"]).contains(&range);
        until(PATIENCE, || others().all(knows).then_some(())).expect("the masters hear of a new one");
        replica
    }

    fn start_with(masters: usize, options: &[&str]) -> Self {
        let nodes: Vec<(RedisServer, String)> = (0..masters).map(|_| start_node(options)).collect();
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
        let cluster = Self { nodes: nodes.into_iter().map(|(node, _)| node).collect(), replicas: Vec::new() };
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
        let known = format!("cluster_known_nodes:{}\r\n", self.nodes.len() + self.replicas.len());
        let whole = |node: &RedisServer| {
            let info = node.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains(&known)
        };
        let follows = |replica: &RedisServer| replica.command(&["ROLE"]).contains("\nconnected\n");
        let is_whole = || self.nodes.iter().all(whole) && self.replicas.iter().all(follows);
        until(PATIENCE, || is_whole().then_some(())).unwrap_or_else(|| {
            panic!("the cluster did not come together:\n{}", self.nodes[0].command(&["CLUSTER", "NODES"]))
        });
    }
}

/// A node that has not joined a cluster, and its cluster bus port.
fn start_node(options: &[&str]) -> (RedisServer, String) {
    let bus = free_port().to_string();
    let node = [&["--cluster-enabled", "yes", "--cluster-port", &bus], options].concat();
    (RedisServer::start_with(&node), bus)
}

/// The cluster bus port of a node.
fn bus_of(node: &RedisServer) -> String {
    let answer = node.command(&["CONFIG", "GET", "cluster-port"]);
    answer.lines().last().expect("an option and its value").to_owned()
}
