//! h2load: HTTP/2 or HTTP/1 from one thread, every request with the same body, at full speed or at a fixed rate.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;

use super::{Load, OpenLoad, Ran, Timed, output_of};

/// The gRPC frame header. An error response lacks it.
const FRAME_HEAD_BYTES: u64 = 5;

/// Requests of many clients.
pub(in crate::server) struct Calls {
    url: String,
    body: NamedTempFile,
    clients: usize,
    /// Requests in flight per client.
    streams: usize,
    /// Requests a second per client; `None` is full speed.
    per_second: Option<u64>,
    protocol: Protocol,
    gives_way: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Grpc,
    Http1,
}

impl Calls {
    /// Calls over gRPC with this message.
    pub(in crate::server) fn grpc(
        url: String,
        message: &[u8],
        clients: usize,
        streams: usize,
    ) -> Result<Self> {
        let length = u32::try_from(message.len())?.to_be_bytes();
        let body = file_of(&[&[0], &length[..], message].concat())?;
        let (per_second, protocol) = (None, Protocol::Grpc);
        Ok(Self { url, body, clients, streams, per_second, protocol, gives_way: false })
    }

    /// POSTs over HTTP/1 at this rate per client.
    pub(in crate::server) fn posts(url: String, body: &str, clients: usize, per_second: u64) -> Result<Self> {
        let body = file_of(body.as_bytes())?;
        let (per_second, protocol) = (Some(per_second), Protocol::Http1);
        Ok(Self { url, body, clients, streams: 1, per_second, protocol, gives_way: false })
    }

    /// At this rate per client.
    pub(in crate::server) fn at_rate(self, per_second: u64) -> Self {
        Self { per_second: Some(per_second), ..self }
    }

    /// At the lowest priority, to simulate another machine.
    pub(in crate::server) fn giving_way(self) -> Self {
        Self { gives_way: true, ..self }
    }

    fn command(&self, lasts: Duration, log: &Path) -> Command {
        let mut command = Command::new(if self.gives_way { "nice" } else { "h2load" });
        command.args(if self.gives_way { &["-n", "19", "h2load"][..] } else { &[] });
        command.arg(format!("-c{}", self.clients)).arg(format!("-m{}", self.streams));
        command.arg(format!("-D{}ms", lasts.as_millis())).arg("-d").arg(self.body.path());
        command.arg(format!("--log-file={}", log.display()));
        command.args(self.per_second.map(|rate| format!("--rps={rate}")));
        match self.protocol {
            Protocol::Grpc => command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]),
            Protocol::Http1 => command.args(["--h1", "-H", "content-type: application/json"]),
        };
        command.arg(&self.url);
        command
    }
}

fn file_of(bytes: &[u8]) -> Result<NamedTempFile> {
    let file = NamedTempFile::new()?;
    std::fs::write(file.path(), bytes)?;
    Ok(file)
}

impl Load for Calls {
    fn run(&self, lasts: Duration) -> Result<Ran> {
        let (summary, timed) = self.timed(lasts)?;
        let slow = Duration::from_micros(timed.percentile(0.99));
        Ok(Ran { requests: summary.done, per_second: summary.done as f64 / lasts.as_secs_f64(), slow })
    }
}

impl OpenLoad for Calls {
    fn run(&self, lasts: Duration) -> Result<Timed> {
        Ok(self.timed(lasts)?.1)
    }
}

impl Calls {
    fn timed(&self, lasts: Duration) -> Result<(Summary, Timed)> {
        let log = NamedTempFile::new()?;
        let said = output_of(&mut self.command(lasts, log.path()))?;
        let summary = Summary::read(&said).with_context(|| format!("h2load said:\n{said}"))?;
        ensure!(summary.failed == 0, "{} requests failed:\n{said}", summary.failed);
        let least = if self.protocol == Protocol::Grpc { FRAME_HEAD_BYTES } else { 1 };
        ensure!(summary.data >= summary.done * least, "answers without a message:\n{said}");
        let timed = times_of(&std::fs::read_to_string(log.path())?).context("h2load's log")?;
        Ok((summary, timed))
    }
}

/// Fields of its final report.
#[derive(Debug, PartialEq)]
struct Summary {
    done: u64,
    failed: u64,
    /// Bytes of bodies.
    data: u64,
}

impl Summary {
    fn read(said: &str) -> Result<Self> {
        let line =
            |begin: &str| said.lines().find_map(|line| line.strip_prefix(begin)).context("a line is missing");
        let count_before = |line: &str, word: &str| -> Result<u64> {
            let words: Vec<&str> = line.split([' ', ',', '(', ')']).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|one| *one == word).context("a word is missing")?;
            Ok(words[at.checked_sub(1).context("a count is missing")?].parse()?)
        };
        let (requests, traffic, codes) = (line("requests: ")?, line("traffic: ")?, line("status codes: ")?);
        let (done, well) = (count_before(requests, "done")?, count_before(codes, "2xx")?);
        Ok(Self { done, failed: done - done.min(well), data: count_before(traffic, "data")? })
    }
}

/// Each line has start time, status and microseconds.
fn times_of(log: &str) -> Result<Timed> {
    let micros = |line: &str| line.split('\t').nth(2)?.parse::<u64>().ok();
    let times: Vec<u64> = log.lines().map(micros).collect::<Option<_>>().context("a line without a time")?;
    ensure!(!times.is_empty(), "no requests");
    Ok(Timed::new(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_read() {
        let said = "\
finished in 1.00s, 34567.00 req/s, 1.98MB/s
requests: 34617 total, 34617 started, 34567 done, 34567 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 34500 2xx, 0 3xx, 67 4xx, 0 5xx
traffic: 1.98MB (2073720) total, 1.00MB (1048576) headers (space savings 60.00%), 0.33MB (345670) data
";
        assert_eq!(Summary::read(said).unwrap(), Summary { done: 34_567, failed: 67, data: 345_670 });
        assert!(Summary::read("requests: none").is_err());
    }

    #[test]
    fn one_of_a_hundred_is_slower() {
        let log: String =
            (1..=200).rev().map(|micros| format!("1700000000000000\t200\t{micros}\n")).collect();
        assert_eq!(times_of(&log).unwrap().percentile(0.99), 199);
        assert!(times_of("").is_err());
    }
}
