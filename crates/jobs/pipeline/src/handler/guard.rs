//! The guard: a small process between the pipeline and a handler.
//!
//! It starts the handler in a process group of its own, limits its memory, and passes its input on. When the pipeline
//! closes the input, also by dying, the guard ends the whole group: SIGTERM, 5 s, SIGKILL. Output goes to the pipeline
//! directly.
//!
//! The guard is the program itself, started again: call [`run_if_asked`] first in `main`.

use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::subprocess::protocol::not_started_line;

/// The argument that makes a program a guard.
pub const GUARD_ARGUMENT: &str = "__pipeline-guard";

/// How long a handler may take to end after SIGTERM.
pub const TERMINATE_WITHIN: Duration = Duration::from_secs(5);

/// What a shell exits with if it cannot start a program.
const NOT_STARTED: i32 = 127;

/// How to start a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardProgram {
    /// The program, whose `main` calls [`run_if_asked`].
    pub program: PathBuf,
}

impl GuardProgram {
    /// The running program.
    pub fn current() -> io::Result<Self> {
        Ok(Self { program: std::env::current_exe()? })
    }

    /// The arguments of the guard for a command.
    pub(crate) fn arguments(&self, command: &[String], memory_max: Option<u64>, each: bool) -> Vec<OsString> {
        let memory = memory_max.unwrap_or(0).to_string();
        let each = if each { "each" } else { "lines" };
        let own = [GUARD_ARGUMENT, &memory, each].map(OsString::from);
        own.into_iter().chain(command.iter().map(OsString::from)).collect()
    }
}

/// If this process was started as a guard, guards, and ends with the handler's exit code. Otherwise returns at once.
pub fn run_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == GUARD_ARGUMENT) {
        std::process::exit(run(arguments.collect()));
    }
}

fn run(arguments: Vec<OsString>) -> i32 {
    let mut arguments = arguments.into_iter();
    let memory = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(0);
    let each = arguments.next().is_some_and(|word| word == "each");
    let Some(program) = arguments.next() else { return NOT_STARTED };
    orphans::adopt();
    let spawned = Command::new(&program).args(arguments).stdin(Stdio::piped()).process_group(0).spawn();
    match spawned {
        Ok(child) => exit_code(guard(child, memory, each)),
        Err(error) => {
            let why = format!("`{}` cannot be started: {error}", program.to_string_lossy());
            let _ = io::stdout().write_all(not_started_line(&why).as_bytes());
            NOT_STARTED
        }
    }
}

fn guard(mut child: Child, memory: u64, each: bool) -> io::Result<ExitStatus> {
    let group = Pid::from_child(&child);
    limit_memory(group, memory);
    if let Some(input) = child.stdin.take() {
        std::thread::spawn(move || copy_input(input, each));
    }
    std::thread::spawn(move || end_with_pipeline(group));
    let status = child.wait();
    // What the handler forked, and left behind.
    let _ = kill_process_group(group, Signal::KILL);
    orphans::kill_all();
    status
}

fn exit_code(status: io::Result<ExitStatus>) -> i32 {
    match status {
        Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Err(_) => NOT_STARTED,
    }
}

/// Passes input on; with `each`, one line, after which the handler's input ends.
fn copy_input(mut handler: ChildStdin, each: bool) {
    let mut input = io::stdin().lock();
    if each {
        let mut line = Vec::new();
        // A handler that does not read, or ends, is found by its exit.
        let _ = input.by_ref().read_until(b'\n', &mut line).and_then(|_| handler.write_all(&line));
        return;
    }
    loop {
        let Ok(bytes) = input.fill_buf() else { return };
        let count = bytes.len();
        if count == 0 || handler.write_all(bytes).is_err() {
            return;
        }
        input.consume(count);
    }
}

/// Waits until the pipeline's end of the input is closed, then ends the group.
fn end_with_pipeline(group: Pid) {
    let input = io::stdin();
    loop {
        // With no events asked for, only the hang-up is reported, even while the handler does not read.
        let mut watched = [PollFd::new(&input, PollFlags::empty())];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => {}
            _ if watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => break,
            _ => {}
        }
    }
    let _ = kill_process_group(group, Signal::TERM);
    std::thread::sleep(TERMINATE_WITHIN);
    let _ = kill_process_group(group, Signal::KILL);
}

#[cfg(target_os = "linux")]
fn limit_memory(process: Pid, bytes: u64) {
    use rustix::process::{Resource, Rlimit, prlimit};
    if bytes > 0 {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        if let Err(error) = prlimit(Some(process), Resource::As, limit) {
            let _ = writeln!(io::stderr(), "memory_max could not be set: {error}");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn limit_memory(_process: Pid, bytes: u64) {
    if bytes > 0 {
        let _ = writeln!(io::stderr(), "memory_max needs Linux");
    }
}

/// Processes that left the group by `setsid`: they become children of the guard when their parent ends.
#[cfg(target_os = "linux")]
mod orphans {
    use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

    /// Enough for a chain of processes, each of which starts another when it is killed.
    const ROUNDS_MAX: usize = 100;

    pub(super) fn adopt() {
        let _ = set_child_subreaper(Some(getpid()));
    }

    pub(super) fn kill_all() {
        for _ in 0..ROUNDS_MAX {
            let children = children();
            if children.is_empty() {
                return;
            }
            for child in children {
                let _ = kill_process(child, Signal::KILL);
            }
            let _ = wait(WaitOptions::empty());
        }
    }

    fn children() -> Vec<Pid> {
        let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
        let read = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).ok();
        let lists: Vec<String> = threads.flatten().filter_map(read).collect();
        let pids = lists.iter().flat_map(|list| list.split_whitespace());
        pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod orphans {
    pub(super) fn adopt() {}
    pub(super) fn kill_all() {}
}
