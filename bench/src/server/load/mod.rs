//! Well-known load generators, so that results do not depend on one of Tollway's own.

pub(super) mod h2load;
pub(super) mod redis_benchmark;
pub(super) mod resp_schedule;
pub(super) mod wrk;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Sends the same requests at full speed.
pub(super) trait Load {
    /// Sends requests for about this long. A failed request is an error.
    fn run(&self, lasts: Duration) -> Result<Ran>;
}

/// The result of a load generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ran {
    pub(super) requests: u64,
    pub(super) per_second: f64,
    /// The 99th percentile of latency.
    pub(super) slow: Duration,
}

/// Sends the same requests at a fixed rate.
pub(super) trait OpenLoad {
    /// Sends requests for about this long. A failed request is an error.
    fn run(&self, lasts: Duration) -> Result<Timed>;
}

/// The latencies of all requests of a run, in microseconds.
pub(super) struct Timed(Vec<u64>);

impl Timed {
    pub(super) fn new(mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        Self(micros)
    }

    pub(super) fn requests(&self) -> usize {
        self.0.len().max(1)
    }

    /// The latency that this share of the requests does not exceed; 0 without requests.
    pub(super) fn percentile(&self, share: f64) -> u64 {
        let at = (self.0.len() as f64 * share) as usize;
        self.0.get(at).or(self.0.last()).copied().unwrap_or(0)
    }
}

/// Checks that all programs are installed.
pub(super) fn check_installed() -> Result<()> {
    for (program, package) in [
        ("wrk", "wrk"),
        ("h2load", "nghttp2-client"),
        ("redis-benchmark", "redis-tools"),
        ("setpriv", "util-linux"),
    ] {
        // Each exits at once when asked for its version, some with an error code.
        let found = Command::new(program).arg("--version").output();
        found.with_context(|| format!("{program} is not installed; on Debian: apt-get install {package}"))?;
    }
    Ok(())
}

/// The output of a program, if it succeeded.
fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| name.clone())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{name} ended with {}:\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}
