//! Another process that writes records until it is killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use tollway_consumers::open_records;

use super::{draft, soon};

const URL: &str = "TOLLWAY_TEST_RECORDS";

/// Starts this test binary again to run only the test of this name.
pub(crate) fn spawn(test: &str, url: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(URL, url);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// In the child process: creates records, one per consumer, and prints each after its response. In the parent: does nothing.
pub(crate) fn write_until_killed() {
    let Ok(url) = std::env::var(URL) else { return };
    let records = open_records(&url).unwrap();
    let mut out = std::io::stdout().lock();
    for number in 0_u64.. {
        let name = format!("process-{}-{number}", std::process::id());
        soon(records.create(draft(&name, 100))).unwrap();
        writeln!(out, "\ncreated {name}").unwrap();
        out.flush().unwrap();
    }
}

/// Kills the child with SIGKILL after it printed this many records; returns the consumers it printed.
pub(crate) fn kill_after(mut child: Child, records: usize) -> Vec<String> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut told = lines.filter_map(|line| Some(line.strip_prefix("created ")?.to_owned()));
    let mut names: Vec<String> = told.by_ref().take(records).collect();
    child.kill().unwrap();
    names.extend(told);
    child.wait().unwrap();
    names
}
