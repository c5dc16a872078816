//! Starts and stops the worker processes. None outlives the demo.

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
pub(super) struct WorkerProcesses {
    program: PathBuf,
    /// The arguments of every worker; its number comes last.
    arguments: Vec<OsString>,
    workers: Vec<Worker>,
}

struct Worker {
    process: Child,
    killed: bool,
}

impl WorkerProcesses {
    /// No workers yet.
    pub(super) fn new(arguments: Vec<OsString>) -> io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, arguments, workers: Vec::new() })
    }

    /// Starts another worker and returns its number.
    pub(super) fn start(&mut self) -> Result<usize, Failure> {
        let number = self.workers.len() + 1;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--as-worker").arg(number.to_string());
        // A worker ends when its standard input closes. Its own process group keeps Ctrl-C from it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let process = command.spawn().map_err(|error| {
            Failure::new(Exit::FAILED, format!("cannot start worker {number}: {error}"))
                .advise("start fewer workers: --workers 4")
        })?;
        self.workers.push(Worker { process, killed: false });
        Ok(number)
    }

    /// Kills a worker with SIGKILL, like a crash.
    pub(super) fn kill(&mut self, number: usize) -> Result<(), Failure> {
        let Some(worker) = self.workers.get_mut(number - 1) else { return Ok(()) };
        worker.killed = true;
        let killed = worker.process.kill().and_then(|()| worker.process.wait());
        killed
            .map(drop)
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot kill worker {number}: {error}")))
    }

    /// Fails if a worker has exited.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        for (index, worker) in self.workers.iter_mut().enumerate().filter(|(_, worker)| !worker.killed) {
            if let Ok(Some(status)) = worker.process.try_wait() {
                let what = format!("worker {} exited ({status})", index + 1);
                return Err(Failure::new(Exit::FAILED, what).advise("read its message above, then try again"));
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

impl Drop for WorkerProcesses {
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
