//! A Valkey server that a test starts.

use super::{RedisServer, program};

/// Starts Valkey, which behaves like Redis here: its servers are [`RedisServer`]s.
pub struct ValkeyServer;

impl ValkeyServer {
    /// Whether there is a Valkey to start. Not every system that Tollway is tested on packages it.
    pub fn is_installed() -> bool {
        program::find("valkey-server", &[]).is_some()
    }

    /// Starts one.
    pub fn start() -> RedisServer {
        Self::start_with(&[])
    }

    /// Starts one with more options, as on its command line.
    pub fn start_with(options: &[&str]) -> RedisServer {
        let package = "valkey-server (Debian 13, Ubuntu 24.10 or later)";
        RedisServer::start_program(program::find_or_say("valkey-server", &[], package), options)
    }
}
