//! Starts a program and waits until the server answers.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::log::Log;
use super::poll_until::START_TIMEOUT;
use super::process::{Launch, Process};
use super::{free_port, until};

/// The most ports to try.
const ATTEMPTS: u32 = 20;

/// How to start one kind of server.
pub(super) struct Recipe<'a> {
    /// Where it keeps its files.
    pub(super) folder: &'a Path,
    /// How it is started on a port.
    pub(super) launch: &'a dyn Fn(u16) -> Launch,
    /// Whether the process with this pid, and no other, answers on this port.
    pub(super) answers: &'a dyn Fn(u16, u32) -> bool,
}

/// Starts it on a free port.
pub(super) fn anywhere(recipe: &Recipe) -> (u16, Process) {
    for _ in 0..ATTEMPTS {
        let port = free_port();
        if let Some(process) = attempt(recipe, port) {
            return (port, process);
        }
    }
    panic!("{ATTEMPTS} ports that were free were taken before the server came:\n{}", log(recipe));
}

/// Starts it on the port it had before.
pub(super) fn again(recipe: &Recipe, port: u16) -> Process {
    for _ in 0..ATTEMPTS {
        if let Some(process) = attempt(recipe, port) {
            return process;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("another process has taken port {port} of a server that was down:\n{}", log(recipe));
}

/// `None` if another process has the port.
pub(super) fn attempt(recipe: &Recipe, port: u16) -> Option<Process> {
    let said_before = Log::in_folder(recipe.folder).length();
    let mut process = Process::spawn((recipe.launch)(port), recipe.folder);
    let answer = until(START_TIMEOUT, || {
        let ended = process.has_ended();
        (ended || (recipe.answers)(port, process.id())).then_some(!ended)
    });
    match answer {
        Some(true) => Some(process),
        Some(false) => {
            let said = Log::in_folder(recipe.folder).text_after(said_before);
            assert!(said.contains("Address already in use"), "the server did not start:\n{said}");
            None
        }
        None => panic!("the server did not answer within {START_TIMEOUT:?}:\n{}", log(recipe)),
    }
}

fn log(recipe: &Recipe) -> String {
    Log::in_folder(recipe.folder).text_after(0)
}
