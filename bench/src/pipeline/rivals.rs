//! The other queues, each round a process of `bench/queues`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tollway_testkit::servers::PostgresServer;

use super::contest::Queue;
use super::ours::empty_database;
use super::programs::Programs;

/// apalis on SQLite.
pub(super) struct Apalis<'p> {
    programs: &'p Programs,
    name: &'static str,
}

impl<'p> Apalis<'p> {
    pub(super) fn new(programs: &'p Programs, name: &'static str) -> Self {
        Self { programs, name }
    }
}

impl Queue for Apalis<'_> {
    fn drain(&self, folder: &Path, workers: u32, jobs: u64) -> Result<Duration> {
        let file = folder.join("jobs.db");
        run(self.programs, self.name, workers, jobs, file.to_str().context("a readable name")?)
    }
}

/// graphile_worker on Postgres.
pub(super) struct Graphile<'p> {
    pub(super) programs: &'p Programs,
    pub(super) server: &'p PostgresServer,
}

impl Queue for Graphile<'_> {
    fn drain(&self, _folder: &Path, workers: u32, jobs: u64) -> Result<Duration> {
        run(self.programs, "graphile", workers, jobs, &empty_database(self.server))
    }
}

/// Runs the program, which prints the seconds that it took.
fn run(programs: &Programs, queue: &str, workers: u32, jobs: u64, place: &str) -> Result<Duration> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(&programs.rivals).arg(queue);
    command.args([workers.to_string(), jobs.to_string(), place.to_owned()]);
    let output = command.output().with_context(|| programs.rivals.display().to_string())?;
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{error}");
    let seconds = said.trim().parse().with_context(|| format!("it printed {said:?}"))?;
    Ok(Duration::from_secs_f64(seconds))
}
