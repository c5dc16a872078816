//! A Redis with sentinels that a test starts.

use std::time::Duration;

use super::poll_until::START_TIMEOUT;
use super::{RedisServer, until};

/// How long a failover may take: sentinels on a busy machine that split their votes try again after ten seconds.
const FAILOVER_PATIENCE: Duration = Duration::from_secs(120);

/// After how many milliseconds the sentinels consider a master down. On a busy machine a live one may not answer for a
/// second, and must not be replaced by an empty server.
const GONE_AFTER_MS: &str = "60000";

/// The same while a test has killed the master.
const GONE_AT_ONCE_MS: &str = "1000";

/// A master, a replica, and three sentinels that promote the replica when a test kills the master.
pub struct RedisSentinel {
    servers: [RedisServer; 2],
    sentinels: [RedisServer; 3],
}

impl RedisSentinel {
    /// The sentinels' name of the master.
    pub const NAME: &str = "tollway";

    /// Starts all of them. The first server is the master.
    pub fn start() -> Self {
        let servers = [(); 2].map(|()| RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]));
        let port = servers[0].port().to_string();
        servers[1].expect_ok(&["REPLICAOF", "127.0.0.1", &port]);
        let sentinels = [(); 3].map(|()| RedisServer::start_with(&["--sentinel"]));
        for sentinel in &sentinels {
            sentinel.expect_ok(&["SENTINEL", "MONITOR", Self::NAME, "127.0.0.1", &port, "2"]);
            sentinel.expect_ok(&["SENTINEL", "SET", Self::NAME, "failover-timeout", "5000"]);
        }
        let group = Self { servers, sentinels };
        group.think_it_gone_after(GONE_AFTER_MS);
        group.wait_until_whole();
        group
    }

    /// The servers: the master and the replica.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The current master, according to the first sentinel.
    pub fn master(&self) -> &RedisServer {
        let answer = self.sentinels[0].command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME]);
        let is_master = |server: &&RedisServer| answer.ends_with(&format!("\n{}", server.port()));
        self.servers.iter().find(is_master).expect("a sentinel knows a master")
    }

    /// Kills the master, and waits until all sentinels name the other server and it accepts writes. Returns the old and the
    /// new master.
    pub fn replace_master(&self) -> (&RedisServer, &RedisServer) {
        let former = self.master();
        let other = self.servers.iter().find(|server| server.port() != former.port()).expect("two servers");
        former.kill();
        self.think_it_gone_after(GONE_AT_ONCE_MS);
        let place = format!("127.0.0.1\n{}", other.port());
        let named = |sentinel: &RedisServer| {
            sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME]) == place
        };
        let is_master = || self.sentinels.iter().all(named) && other.command(&["ROLE"]).starts_with("master");
        until(FAILOVER_PATIENCE, || is_master().then_some(())).expect("sentinels make the replica a master");
        self.think_it_gone_after(GONE_AFTER_MS);
        (former, other)
    }

    fn think_it_gone_after(&self, milliseconds: &str) {
        let down_after = ["SENTINEL", "SET", Self::NAME, "down-after-milliseconds", milliseconds];
        self.sentinels.iter().for_each(|sentinel| sentinel.expect_ok(&down_after));
    }

    /// Waits until the replica follows, and the sentinels know it and each other.
    pub fn wait_until_whole(&self) {
        let whole = |sentinel: &RedisServer| {
            let master = format!("\n{}\n", sentinel.command(&["SENTINEL", "MASTER", Self::NAME]));
            ["\nnum-slaves\n1\n", "\nnum-other-sentinels\n2\n", "\nflags\nmaster\n"]
                .iter()
                .all(|line| master.contains(line))
        };
        // Queries the replica: its master reports it online before it has loaded the data.
        let follows = || {
            let master = self.master().port();
            let followed = format!("slave\n127.0.0.1\n{master}\nconnected\n");
            self.servers.iter().any(|server| server.command(&["ROLE"]).starts_with(&followed))
        };
        until(START_TIMEOUT, || (self.sentinels.iter().all(whole) && follows()).then_some(()))
            .expect("the sentinels find the replica and each other");
    }
}
