//! Programs that make load, each as it is known and installed: nobody has to believe a generator of ours.

pub(super) mod h2load;
pub(super) mod redis_benchmark;
pub(super) mod wrk;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The same requests again and again, as fast as they are answered.
pub(super) trait Load {
    /// Asks for about this long. A request that was not answered well is an error.
    fn run(&self, lasts: Duration) -> Result<Ran>;
}

/// What a program counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ran {
    pub(super) requests: u64,
    pub(super) per_second: f64,
    /// How long 99 of 100 requests took at most.
    pub(super) slow: Duration,
}

/// Whether all programs are here, before anything is measured.
pub(super) fn check_installed() -> Result<()> {
    for (program, package) in [
        ("wrk", "wrk"),
        ("h2load", "nghttp2-client"),
        ("redis-benchmark", "redis-tools"),
        ("setpriv", "util-linux"),
    ] {
        // Each ends at once if it is asked for its version, though not each says that it liked it.
        let found = Command::new(program).arg("--version").output();
        found.with_context(|| format!("{program} is not installed; on Debian: apt-get install {package}"))?;
    }
    Ok(())
}

/// What a program printed, if it says that all went well.
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
