//! One running server.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::family;
use super::log::Log;
use super::poll_until::START_TIMEOUT;
use super::until;
use super::watcher::Watcher;

/// Waits for input before it executes the program, so that the watcher knows the process before it starts.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// What to run, and how to end it.
pub(super) struct Launch {
    /// The program.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// The user and group to run it as, if not those of the test.
    pub(super) user: Option<(u32, u32)>,
    /// The signal that ends it without leaving anything behind.
    pub(super) ending: Ending,
}

/// How a server that is no longer needed is ended.
#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// It has nothing to tidy up.
    Kill,
    /// It gives its shared memory back first.
    Quit,
}

impl Ending {
    fn signal(self) -> (&'static str, Signal) {
        match self {
            Self::Kill => ("KILL", Signal::KILL),
            Self::Quit => ("QUIT", Signal::QUIT),
        }
    }
}

/// A running server. Dropping it ends it.
pub(super) struct Process {
    child: Child,
    watcher: Watcher,
    ending: Ending,
    /// Stopped by [`Process::pause`], the server itself first.
    stopped: Vec<u32>,
}

impl Process {
    /// Starts it in this folder.
    pub(super) fn spawn(launch: Launch, folder: &Path) -> Self {
        let mut watcher = Watcher::new(launch.ending.signal().0, folder);
        let output = Log::in_folder(folder).open();
        let mut gate = Command::new("sh");
        gate.args(["-c", GATE, "gate"]).arg(&launch.program).args(&launch.args);
        gate.stdin(Stdio::piped()).stdout(output.try_clone().expect("a file handle")).stderr(output);
        gate.process_group(0).current_dir(folder).env("LC_ALL", "C");
        if let Some((user, group)) = launch.user {
            gate.uid(user).gid(group);
        }
        let mut child = gate.spawn().expect("a shell to start the server from");
        watcher.watch(&[child.id()]);
        let mut go = child.stdin.take().expect("the gate was given a pipe");
        writeln!(go, "go").expect("the gate reads");
        Self { child, watcher, ending: launch.ending, stopped: Vec::new() }
    }

    /// Its pid.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child of this process").is_some()
    }

    /// Waits for its end. Its pid may be reused, so the watcher forgets it.
    pub(super) fn wait_for_end(&mut self) {
        until(START_TIMEOUT, || self.has_ended().then_some(())).expect("the server stops when it is told to");
        self.stopped.clear();
        self.watcher.watch(&[]);
    }

    /// Pauses it and its children. Its connections stay open, and the kernel accepts new ones.
    pub(super) fn pause(&mut self) {
        assert!(!self.has_ended(), "a server that has ended cannot be paused");
        self.stopped = family::stop(self.id());
        self.watcher.watch(&self.stopped);
    }

    /// Resumes it, children first.
    pub(super) fn resume(&mut self) {
        assert!(!self.has_ended(), "a server that has ended cannot go on");
        for pid in self.stopped.drain(..).rev() {
            family::send(pid, Signal::CONT);
        }
        self.watcher.watch(&[self.child.id()]);
    }

    /// Ends it with all of its children, as a power failure would.
    pub(super) fn kill(&mut self) {
        if self.has_ended() {
            return;
        }
        let family = family::stop(self.id());
        for &pid in &family {
            family::send(pid, Signal::KILL);
        }
        family::wait_for_end(&family);
        self.wait_for_end();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        family::send(self.child.id(), self.ending.signal().1);
        for &pid in self.stopped.iter().rev() {
            family::send(pid, Signal::CONT);
        }
        if until(START_TIMEOUT / 3, || self.has_ended().then_some(())).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
