//! The worker processes, as seen by who started them: none outlives the demo.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::failure::{Exit, Failure};

/// How long a worker may take to end by itself: polls, and the time between them.
const POLLS: u32 = 100;
const BETWEEN_POLLS: Duration = Duration::from_millis(10);

/// The worker processes.
pub(super) struct Crew {
    program: PathBuf,
    /// What every worker is told; its number comes last.
    orders: Vec<OsString>,
    workers: Vec<Worker>,
}

struct Worker {
    process: Child,
    killed: bool,
}

impl Crew {
    /// Nobody yet.
    pub(super) fn new(orders: Vec<OsString>) -> io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, orders, workers: Vec::new() })
    }

    /// Starts one more worker; its number.
    pub(super) fn hire(&mut self) -> Result<usize, Failure> {
        let number = self.workers.len() + 1;
        let mut command = Command::new(&self.program);
        command.args(&self.orders).arg("--as-worker").arg(number.to_string());
        // It ends when its standard input does, and Ctrl-C is for us alone: we end the workers, then report.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let process = command.spawn().map_err(|error| {
            Failure::new(Exit::FAILED, format!("worker {number} cannot be started: {error}"))
                .advise("start fewer of them: --workers 4")
        })?;
        self.workers.push(Worker { process, killed: false });
        Ok(number)
    }

    /// Kills a worker, as a crash would: it cannot do anything about it (SIGKILL).
    pub(super) fn kill(&mut self, number: usize) -> Result<(), Failure> {
        let Some(worker) = self.workers.get_mut(number - 1) else { return Ok(()) };
        worker.killed = true;
        let killed = worker.process.kill().and_then(|()| worker.process.wait());
        killed
            .map(drop)
            .map_err(|error| Failure::new(Exit::FAILED, format!("worker {number} cannot be killed: {error}")))
    }

    /// An error if a worker ended by itself.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        for (index, worker) in self.workers.iter_mut().enumerate().filter(|(_, worker)| !worker.killed) {
            if let Ok(Some(status)) = worker.process.try_wait() {
                let what = format!("worker {} ended by itself ({status})", index + 1);
                return Err(
                    Failure::new(Exit::FAILED, what).advise("read above what it said, then start again")
                );
            }
        }
        Ok(())
    }

    /// The workers' process ids, in the order of their numbers.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.workers.iter().map(|worker| worker.process.id())
    }

    /// Ends all workers and waits until they have ended.
    pub(super) fn end(&mut self) {
        for worker in &mut self.workers {
            drop(worker.process.stdin.take());
        }
        for worker in &mut self.workers {
            worker.end();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    fn end(&mut self) {
        for _ in 0..POLLS {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(BETWEEN_POLLS);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
