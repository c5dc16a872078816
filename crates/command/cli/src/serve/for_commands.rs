//! Answers commands from the memory of the server, if neither names a store: one meter for both.

use std::fs::create_dir_all;

use tollway::Limiter;
use tollway_socket::{SocketServer, SocketStore, serve_store};

use crate::context::server_socket;

/// Answers commands until it is dropped. A server that cannot do that still serves.
pub(crate) fn answer(limiter: &Limiter) -> Option<SocketServer> {
    let path = server_socket()?;
    if let Ok(Some(_)) = SocketStore::connect(&path) {
        tracing::warn!("another tollway serve without a store runs; commands ask that one");
        return None;
    }
    let folder = path.parent().map_or(Ok(()), create_dir_all);
    match folder.and_then(|()| serve_store(&path, limiter.store())) {
        Ok(server) => Some(server),
        Err(error) => {
            let path = path.display();
            tracing::warn!(%error, "commands cannot ask this server at {path}, and count by themselves");
            None
        }
    }
}
