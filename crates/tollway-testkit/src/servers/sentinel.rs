//! A Redis that is watched over by sentinels, of a test's own.

use super::patience::PATIENCE;
use super::{RedisServer, until};

/// A master and a replica, and three sentinels that make the one the other when it is gone for a second.
pub struct RedisSentinel {
    servers: [RedisServer; 2],
    sentinels: [RedisServer; 3],
}

impl RedisSentinel {
    /// What the sentinels call the master.
    pub const NAME: &str = "tollway";

    /// Starts all of them. The first server is the master.
    pub fn start() -> Self {
        let servers = [(); 2].map(|()| RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]));
        let port = servers[0].port().to_string();
        servers[1].expect_ok(&["REPLICAOF", "127.0.0.1", &port]);
        let sentinels = [(); 3].map(|()| RedisServer::start_with(&["--sentinel"]));
        for sentinel in &sentinels {
            sentinel.expect_ok(&["SENTINEL", "MONITOR", Self::NAME, "127.0.0.1", &port, "2"]);
            let haste = ["down-after-milliseconds", "1000", "failover-timeout", "5000"];
            sentinel.expect_ok(&[&["SENTINEL", "SET", Self::NAME], &haste[..]].concat());
        }
        let group = Self { servers, sentinels };
        group.wait_until_whole();
        group
    }

    /// The servers, whoever is the master.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Which server is the master, by the word of the first sentinel.
    pub fn master(&self) -> &RedisServer {
        let answer = self.sentinels[0].command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME]);
        let is_master = |server: &&RedisServer| answer.ends_with(&format!("\n{}", server.port()));
        self.servers.iter().find(is_master).expect("a sentinel knows a master")
    }

    /// Waits until all sentinels name another master than this, and it takes writes.
    pub fn wait_for_other_master(&self, former: &RedisServer) -> &RedisServer {
        let other = self.servers.iter().find(|server| server.port() != former.port()).expect("two servers");
        let place = format!("127.0.0.1\n{}", other.port());
        let named = |sentinel: &RedisServer| {
            sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME]) == place
        };
        let is_master = || self.sentinels.iter().all(named) && other.command(&["ROLE"]).starts_with("master");
        until(PATIENCE, || is_master().then_some(())).expect("sentinels make the replica a master");
        other
    }

    /// Waits until the replica follows, and the sentinels know it and each other.
    pub fn wait_until_whole(&self) {
        let whole = |sentinel: &RedisServer| {
            let master = format!("\n{}\n", sentinel.command(&["SENTINEL", "MASTER", Self::NAME]));
            ["\nnum-slaves\n1\n", "\nnum-other-sentinels\n2\n", "\nflags\nmaster\n"]
                .iter()
                .all(|line| master.contains(line))
        };
        // By the replica's word: its master calls it online before it has loaded what it was sent.
        let follows = || {
            let master = self.master().port();
            let followed = format!("slave\n127.0.0.1\n{master}\nconnected\n");
            self.servers.iter().any(|server| server.command(&["ROLE"]).starts_with(&followed))
        };
        until(PATIENCE, || (self.sentinels.iter().all(whole) && follows()).then_some(()))
            .expect("the sentinels find the replica and each other");
    }
}
