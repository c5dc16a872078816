//! redis-benchmark: one command for random keys from one thread, with or without pipelining. Stops at the first error.

use std::cell::Cell;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Load, Ran, output_of};

const CONNECTIONS: &str = "50";

/// The fewest commands of a run: the program measures in milliseconds.
const COMMANDS_MIN: f64 = 20_000.0;

/// The placeholder for a random key.
pub(in crate::server) const KEY: &str = "user:__rand_int__";

pub(in crate::server) struct Commands {
    port: u16,
    keys: u32,
    words: Vec<String>,
    pipelined: usize,
    /// The last rate, to size the next round.
    per_second: Cell<f64>,
}

impl Commands {
    pub(in crate::server) fn new(port: u16, command: &str, keys: u32, pipelined: usize) -> Self {
        let words = command.split(' ').map(str::to_owned).collect();
        Self { port, keys, words, pipelined, per_second: Cell::new(0.0) }
    }
}

impl Load for Commands {
    fn run(&self, lasts: Duration) -> Result<Ran> {
        let requests = (self.per_second.get() * lasts.as_secs_f64()).max(COMMANDS_MIN) as u64;
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", &self.port.to_string(), "-c", CONNECTIONS, "-P", &self.pipelined.to_string()]);
        command.args(["-n", &requests.to_string(), "-r", &self.keys.to_string(), "--csv"]).args(&self.words);
        let said = output_of(&mut command)?;
        let (per_second, slow) = read(&said).with_context(|| format!("redis-benchmark said:\n{said}"))?;
        self.per_second.set(per_second);
        Ok(Ran { requests, per_second, slow })
    }
}

/// A header line and a line of figures that starts with the command. Latencies are in milliseconds.
fn read(said: &str) -> Result<(f64, Duration)> {
    let cells = |line: &str| line.trim_matches('"').split("\",\"").map(str::to_owned).collect::<Vec<_>>();
    let mut lines = said.lines().map(cells).skip_while(|cells| cells[0] != "test");
    let (names, figures) = lines.next().zip(lines.next()).context("no figures")?;
    let figure = |name: &str| -> Result<f64> {
        let at = names.iter().position(|one| one == name).context("a name is missing")?;
        Ok(figures.get(at).context("a figure is missing")?.parse()?)
    };
    Ok((figure("rps")?, Duration::try_from_secs_f64(figure("p99_latency_ms")? / 1e3)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_table_is_read() {
        let said = "WARNING\n\"test\",\"rps\",\"p50_latency_ms\",\"p99_latency_ms\"\n\"INCR key\",\"33057.85\",\"0.687\",\"13.103\"\n";
        assert_eq!(read(said).unwrap(), (33_057.85, Duration::from_micros(13_103)));
        assert!(read("\"test\",\"rps\"\n").is_err());
    }
}
