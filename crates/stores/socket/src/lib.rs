//! What one process owns, for the other processes of its machine: over a unix socket, a line of JSON for a call and a line
//! for its answer.
//!
//! `client` and `server` carry lines, whatever they say. [`SocketStore`] is a store behind such a socket: `tollway serve`
//! counts in its memory, and commands ask it. `tollway-pipeline` carries the calls of its engines the same way.

#![forbid(unsafe_code)]

mod client;
mod server;
mod store;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use client::SocketClient;
pub use server::SocketServer;
pub use store::{SocketStore, serve_store};

/// The longest line, either way.
pub const LINE_BYTES_MAX: u64 = 64 << 20;

/// How often a process that works on an answer is heard: it sends a space, which JSON ignores before a value.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// How many spaces a line may begin with beyond its bound: answers take minutes, and these last for twelve days.
const ALIVE_BYTES_MAX: u64 = 1 << 20;

/// The longest path that every system takes for a socket.
const PATH_BYTES_MAX: usize = 100;

/// The same path, short enough for a socket, and the folder that must stay open while it is used.
fn short_path(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    use std::os::fd::AsRawFd;

    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok((path.to_owned(), None));
    };
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok((path.to_owned(), None));
    }
    let folder = File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((short, Some(folder)))
}
