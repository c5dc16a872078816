//! wrk: HTTP/1 from one thread, every request with a different body.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tempfile::NamedTempFile;

use super::{Load, Ran, output_of};

const CONNECTIONS: &str = "-c64";

/// The Lua script of wrk: a POST with a random key, and a result line at the end.
const SCRIPT: &str = r#"
local headers = { ["content-type"] = "application/json" }
function request()
    return wrk.format("POST", nil, headers, string.format('BODY', math.random(0, KEYS - 1)))
end
function done(summary, latency, requests)
    local failed = summary.errors
    local errors = failed.connect + failed.read + failed.write + failed.status + failed.timeout
    io.write(string.format('\nran {"requests": %d, "micros": %d, "errors": %d, "slow_micros": %d}\n',
        summary.requests, summary.duration, errors, latency:percentile(99)))
end
"#;

pub(in crate::server) struct Posts {
    url: String,
    script: NamedTempFile,
}

#[derive(Deserialize)]
struct WrkSummary {
    requests: u64,
    micros: u64,
    errors: u64,
    slow_micros: u64,
}

impl Posts {
    /// `body` has a placeholder for a key, as in `{"key": "user:%08d"}`.
    pub(in crate::server) fn new(url: String, body: &str, keys: u32) -> Result<Self> {
        let text = SCRIPT.replace("BODY", body).replace("KEYS", &keys.to_string());
        let script = NamedTempFile::new()?;
        std::fs::write(script.path(), text)?;
        Ok(Self { url, script })
    }
}

impl Load for Posts {
    /// wrk supports only whole seconds.
    fn run(&self, lasts: Duration) -> Result<Ran> {
        let seconds = lasts.as_secs().max(1);
        let mut command = Command::new("wrk");
        command.args(["-t1", CONNECTIONS, "-d", &seconds.to_string(), "-s"]).arg(self.script.path());
        let said = output_of(command.arg(&self.url))?;
        read(&said).with_context(|| format!("wrk said:\n{said}"))
    }
}

fn read(said: &str) -> Result<Ran> {
    let line =
        said.lines().find_map(|line| line.strip_prefix("ran ")).context("the script's line is missing")?;
    let WrkSummary { requests, micros, errors, slow_micros } = serde_json::from_str(line)?;
    ensure!(errors == 0, "{errors} errors");
    let per_second = requests as f64 / Duration::from_micros(micros).as_secs_f64();
    Ok(Ran { requests, per_second, slow: Duration::from_micros(slow_micros) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_line_is_read() {
        let line = |errors| {
            format!(
                "Running\n\nran {{\"requests\": 50, \"micros\": 2000000, \"errors\": {errors}, \"slow_micros\": 7}}\n"
            )
        };
        let ran = Ran { requests: 50, per_second: 25.0, slow: Duration::from_micros(7) };
        assert_eq!(read(&line(0)).unwrap(), ran);
        assert!(read(&line(1)).is_err());
        assert!(read("Running\n").is_err());
    }
}
