//! A server process, killed on drop and when this process ends.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::stopwatch::Lap;

/// Timeout for a server to listen, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between connection attempts.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Process(Child);

impl Process {
    /// Starts a program. Discards its standard output, but not its errors.
    pub(super) fn start(program: &Path, arguments: &[String]) -> Result<Self> {
        Self::start_telling(program, arguments, Stdio::null())
    }

    /// Starts this program as a server and reads its ports.
    pub(super) fn serve(who: &str) -> Result<(Self, Vec<u16>)> {
        let program = std::env::current_exe().context("this program's own path")?;
        let arguments = ["--serve".to_owned(), who.to_owned()];
        let mut process = Self::start_telling(&program, &arguments, Stdio::piped())?;
        let mut said = String::new();
        let output = process.0.stdout.take().context("it was given a pipe")?;
        BufReader::new(output).read_line(&mut said)?;
        let ports = said.split_whitespace().map(str::parse).collect::<Result<Vec<u16>, _>>();
        let ports = ports.ok().filter(|ports| !ports.is_empty());
        Ok((process, ports.with_context(|| format!("{who} did not say where it listens"))?))
    }

    fn start_telling(program: &Path, arguments: &[String], output: Stdio) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(output);
        Ok(Self(command.spawn().with_context(|| program.display().to_string())?))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the port accepts connections.
    pub(super) fn wait_for(&mut self, port: u16) -> Result<()> {
        let waited = Lap::start();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = self.0.try_wait()? {
                bail!("it ended with {status}");
            }
            ensure!(waited.time() < TIMEOUT, "it does not listen on port {port}");
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
