//! Stopping a process together with its children: a paused Postgres is all of its processes.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::poll_until::START_TIMEOUT;
use super::until;

/// Sends a signal. It is not an error if the process has ended.
pub(super) fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// Stops the process and its children. Returns the stopped processes, the parent first.
pub(super) fn stop(pid: u32) -> Vec<u32> {
    stop_one(pid);
    // A stopped parent starts no more children, so none is missed.
    let children = children(pid);
    for &child in &children {
        stop_one(child);
    }
    [vec![pid], children].concat()
}

/// Waits until all of them have ended, whether or not their parents have noticed.
pub(super) fn wait_for_end(pids: &[u32]) {
    for &pid in pids {
        wait_for_state(pid, "ZX");
    }
}

fn stop_one(pid: u32) {
    send(pid, Signal::STOP);
    wait_for_state(pid, "TtZX");
}

/// A signal is only sent: this waits until the process is in one of these states, or gone.
fn wait_for_state(pid: u32, states: &str) {
    let is_there = || status(pid).is_none_or(|(state, _)| states.contains(state)).then_some(());
    until(START_TIMEOUT, is_there).expect("a process does what signals tell it to");
}

/// The children of a process; empty without `/proc`.
fn children(parent: u32) -> Vec<u32> {
    let entries = Path::new("/proc").read_dir().into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| status(pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// The state and the parent of a process.
fn status(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name comes before, in parentheses, and may itself have any.
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
