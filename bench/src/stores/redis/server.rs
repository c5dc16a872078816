//! Statistics of Redis.

use std::time::Duration;

use anyhow::{Context, Result};
use tollway_testkit::servers::{RedisCluster, RedisServer};

use crate::processor;
use crate::stores::round::Server;

impl Server for RedisServer {
    fn time(&self) -> Result<Duration> {
        let pid = info(self, "server", "process_id");
        processor::time_of(pid.and_then(|pid| pid.parse().ok()).context("Redis knows its process")?)
    }

    /// Keeps its scripts.
    fn empty(&self) {
        assert_eq!(self.command(&["FLUSHALL"]), "OK");
    }

    fn count_commands(&self) {
        assert_eq!(self.command(&["CONFIG", "RESETSTAT"]), "OK");
    }

    fn commands(&self, names: &[&str]) -> Option<u64> {
        let stats = self.command(&["INFO", "commandstats"]);
        Some(names.iter().filter_map(|name| calls(&stats, name)).sum())
    }
}

/// All nodes together.
impl Server for RedisCluster {
    fn time(&self) -> Result<Duration> {
        self.nodes().iter().map(Server::time).sum()
    }

    fn empty(&self) {
        self.nodes().iter().for_each(Server::empty);
    }

    fn count_commands(&self) {
        self.nodes().iter().for_each(Server::count_commands);
    }

    fn commands(&self, names: &[&str]) -> Option<u64> {
        self.nodes().iter().map(|node| node.commands(names)).sum()
    }
}

/// One field of a section of `INFO`.
pub(super) fn info(server: &RedisServer, section: &str, fact: &str) -> Option<String> {
    let text = server.command(&["INFO", section]);
    text.lines().find_map(|line| Some(line.strip_prefix(fact)?.strip_prefix(':')?.trim().to_owned()))
}

/// `cmdstat_get:calls=12,usec=34,...`.
fn calls(stats: &str, command: &str) -> Option<u64> {
    let begin = format!("cmdstat_{command}:calls=");
    stats.lines().find_map(|line| line.strip_prefix(&begin)?.split(',').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::calls;

    #[test]
    fn calls_are_found() {
        let stats =
            "# Commandstats\r\ncmdstat_evalsha:calls=7,usec=1\r\ncmdstat_eval:calls=12,usec=34,x=1\r\n";
        assert_eq!(
            [calls(stats, "eval"), calls(stats, "evalsha"), calls(stats, "get")],
            [Some(12), Some(7), None]
        );
    }
}
