//! The engine of another process, over a unix socket.
//!
//! A SQLite file belongs to the process that runs its pipeline. That process serves the engine beside the file, and commands
//! reach it there: they count, list, change and enqueue as if the file were theirs. `protocol` is what is said, one JSON
//! line each way (`tollway-socket` carries them), `client` asks and `server` answers.

mod client;
mod protocol;
mod server;

use std::path::{Path, PathBuf};

pub use client::SocketEngine;
pub use server::SocketServer;

/// `pdf.db-socket` beside `pdf.db`.
fn socket_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-socket");
    PathBuf::from(name)
}
