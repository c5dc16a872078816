//! Statistics of Postgres.

use std::time::Duration;

use anyhow::{Context, Result};
use tollway_testkit::servers::PostgresServer;

use crate::processor;
use crate::stores::round::Server;

impl Server for PostgresServer {
    fn time(&self) -> Result<Duration> {
        let told = std::fs::read_to_string(self.folder().join("data/postmaster.pid")).unwrap_or_default();
        let pid = told.lines().next().and_then(|line| line.parse().ok());
        processor::time_of(pid.context("Postgres writes down its process")?)
    }

    /// The next entrant creates its own tables.
    fn empty(&self) {
        self.query("DROP SCHEMA IF EXISTS tollway CASCADE; DROP TABLE IF EXISTS naive");
    }

    /// Unknown: statistics arrive late, at different times per connection.
    fn count_commands(&self) {}

    fn commands(&self, _names: &[&str]) -> Option<u64> {
        None
    }
}
