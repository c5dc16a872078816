//! Which cores threads may run on. Pinned apart, the server and the load generator do not take each other's core.

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The core of the servers. They are measured in turn, so they can share it.
const OF_SERVERS: usize = 0;
/// The core of the load generator.
const OF_LOAD: usize = 1;

/// Servers on one core and this thread on another, with all programs that it starts. Dropped, all may run anywhere again.
pub(super) struct Pinned {
    servers: Vec<u32>,
    before: CpuSet,
}

impl Pinned {
    /// Pins all threads of these processes, and this thread.
    pub(super) fn apart(servers: Vec<u32>) -> Result<Self> {
        let before = sched_getaffinity(None).context("the cores of this thread")?;
        let pinned = Self { servers, before };
        pinned.servers.iter().try_for_each(|pid| allow(*pid, &only(OF_SERVERS)))?;
        sched_setaffinity(None, &only(OF_LOAD)).context("a machine with two cores")?;
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
        for pid in &self.servers {
            let _ = allow(*pid, &self.before);
        }
    }
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

fn allow(pid: u32, cores: &CpuSet) -> Result<()> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).context("the server's threads")? {
        let thread = thread?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        sched_setaffinity(thread, cores).context("pinning a thread of a server")?;
    }
    Ok(())
}
