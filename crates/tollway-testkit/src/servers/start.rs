//! From a program to a server that answers.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::log::Log;
use super::patience::PATIENCE;
use super::process::{Launch, Process};
use super::{free_port, until};

/// How many ports that another process was faster to take are too many.
const ATTEMPTS: u32 = 20;

/// What differs between servers.
pub(super) struct Recipe<'a> {
    /// Where it keeps its files.
    pub(super) folder: &'a Path,
    /// How it is started on a port.
    pub(super) launch: &'a dyn Fn(u16) -> Launch,
    /// Whether the process of this number, and no other, answers on this port.
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

/// Starts it on this port, where it has been before.
pub(super) fn again(recipe: &Recipe, port: u16) -> Process {
    for _ in 0..ATTEMPTS {
        if let Some(process) = attempt(recipe, port) {
            return process;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("another process has taken port {port} of a server that was down:\n{}", log(recipe));
}

/// Nothing if the port is another's.
pub(super) fn attempt(recipe: &Recipe, port: u16) -> Option<Process> {
    let said_before = Log::in_folder(recipe.folder).length();
    let mut process = Process::spawn((recipe.launch)(port), recipe.folder);
    let answer = until(PATIENCE, || {
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
        None => panic!("the server did not answer within {PATIENCE:?}:\n{}", log(recipe)),
    }
}

fn log(recipe: &Recipe) -> String {
    Log::in_folder(recipe.folder).text_after(0)
}
