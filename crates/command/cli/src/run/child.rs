//! Starts the command: by exec, or as a child process while this one holds its slot.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tollway::Permit;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Finds the command in `$PATH`, as a shell does.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    let named = Path::new(program);
    let found = if named.components().count() > 1 || named.is_absolute() {
        Some(named.to_owned())
    } else {
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders).map(|folder| folder.join(named)).find(|path| can_be_run(path).is_ok())
    };
    let found = found.ok_or_else(|| failed(program, &io::ErrorKind::NotFound.into()))?;
    can_be_run(&found).map_err(|error| failed(program, &error))?;
    Ok(found)
}

fn can_be_run(path: &Path) -> io::Result<()> {
    let metadata = path.metadata()?;
    let executable = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    if executable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Replaces this process with the command. Returns only on failure.
pub(super) fn replace_process(mut command: Command) -> Failure {
    let error = command.exec();
    let program = command.get_program().display();
    Failure::new(Exit::CANNOT_RUN, format!("cannot run {program}: {error}"))
}

/// Runs the command as a child process, forwards signals to it, and holds the permit until it ends.
pub(super) async fn run_as_child(command: Command, permit: Permit, output: &Output) -> Result<Exit, Failure> {
    let program = command.get_program().to_owned();
    // Before the command starts, so that an early signal is forwarded, too.
    let mut signals = Signals::new()?;
    let mut child = match tokio::process::Command::from(command).spawn() {
        Ok(child) => child,
        Err(error) => {
            // Best effort: a refund that fails leaves the units charged.
            let _ = permit.give_back().await;
            return Err(failed(&program, &error));
        }
    };
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            received = signals.next() => forward(pid, received),
        }
    };
    // Without this the slot stays taken until it expires, and queued callers wait for that.
    if let Err(error) = permit.done().await {
        output.warning(format_args!("cannot release the slot; it expires later: {error}"));
    }
    Ok(exit_of(status))
}

/// Signals that a shell or a supervisor sends to a command.
struct Signals {
    hangup: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    user1: tokio::signal::unix::Signal,
    user2: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::HUP,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.user1.recv() => Signal::USR1,
            _ = self.user2.recv() => Signal::USR2,
        }
    }
}

/// A terminal sends SIGINT and SIGQUIT to the whole process group: the command already has them.
fn forward(pid: Option<Pid>, signal: Signal) {
    let by_keys = matches!(signal, Signal::INT | Signal::QUIT) && in_foreground();
    if let Some(pid) = pid.filter(|_| !by_keys) {
        // The process may have just ended.
        let _ = kill_process(pid, signal);
    }
}

fn in_foreground() -> bool {
    rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// As in shells: 128 + N if signal N killed it.
fn exit_of(status: ExitStatus) -> Exit {
    let signal = || status.signal().map(|signal| signal.saturating_add(128));
    let code = status.code().or_else(signal).unwrap_or(1);
    Exit::new(u8::try_from(code).unwrap_or(u8::MAX))
}

fn failed(program: &OsStr, error: &io::Error) -> Failure {
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(Exit::NO_COMMAND, format!("command not found: {program}; nothing was taken"))
        }
        _ => Failure::new(Exit::CANNOT_RUN, format!("cannot run {program}: {error}; nothing was taken")),
    }
}
