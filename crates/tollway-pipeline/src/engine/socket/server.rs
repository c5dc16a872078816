//! Answers commands beside the process that owns the jobs.

use std::path::Path;
use std::sync::Arc;

use tollway_core::Retry;

use super::protocol::answer;
use super::socket_path;
use crate::{Engine, EngineError};

/// Answers commands until it is dropped.
pub struct SocketServer {
    _lines: tollway_socket::SocketServer,
}

impl SocketServer {
    /// Listens beside the engine's file, for its user only. The caller owns the file: a socket that is there is left over
    /// from a process that died.
    pub fn start(file: &Path, engine: Arc<dyn Engine>) -> Result<Self, EngineError> {
        let path = socket_path(file);
        let lines = tollway_socket::SocketServer::start(&path, move |line| {
            let engine = engine.clone();
            async move { answer(&*engine, &line).await }
        });
        let lines = lines.map_err(|error| {
            let message = format!("commands cannot be answered at {}: {error}", path.display());
            EngineError::storage(Retry::Safe, message)
        })?;
        Ok(Self { _lines: lines })
    }
}
