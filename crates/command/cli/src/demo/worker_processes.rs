//! How worker processes are started, and which of them may be killed.

use std::env;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};

use super::worker::AfterRefusal;
use crate::failure::{Exit, Failure};

/// The workers that share a command line and a folder.
#[derive(Clone, Debug)]
pub(super) struct WorkerProcesses {
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// Each worker makes a file here, whose name is its process id.
    folder: PathBuf,
}

impl WorkerProcesses {
    /// Workers that call this vendor and register in a new folder.
    pub(super) fn new(
        folder: &Path,
        vendor: SocketAddr,
        alone: Option<AfterRefusal>,
    ) -> Result<Self, Failure> {
        let cannot =
            |error: io::Error| Failure::new(Exit::FAILED, format!("the demo cannot start workers: {error}"));
        fs::create_dir(folder).map_err(cannot)?;
        let program = env::current_exe().map_err(cannot)?;
        let text = |path: &Path| {
            let unreadable = || io::Error::other(format!("{} is not valid UTF-8", path.display()));
            path.to_str().map(str::to_owned).ok_or_else(unreadable).map_err(cannot)
        };
        let mut command = vec![text(&program)?, "demo".to_owned(), "--as-worker".to_owned(), text(folder)?];
        command.extend(["--vendor".to_owned(), vendor.to_string()]);
        if let Some(value) = alone.and_then(|alone| alone.to_possible_value()) {
            command.push(format!("--without={}", value.get_name()));
        }
        Ok(Self { command, folder: folder.to_owned() })
    }

    /// Kills a worker with SIGKILL, like a crash. False if there is no such worker: only those that have registered are
    /// killed, whatever a caller of the vendor says its process id is.
    pub(super) fn kill(&self, worker: u32) -> bool {
        let pid = i32::try_from(worker).ok().and_then(Pid::from_raw);
        let registered = self.folder.join(worker.to_string()).exists();
        pid.filter(|_| registered).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }
}
