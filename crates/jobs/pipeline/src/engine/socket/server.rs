//! Answers commands beside the process that owns the jobs.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tollway_core::Retry;

use super::protocol::answer;
use super::socket_path;
use crate::run::RunnerView;
use crate::{Engine, EngineError};

/// What a runner knows now.
pub(super) type View = Box<dyn Fn() -> RunnerView + Send + Sync>;

/// Answers commands until it is dropped.
pub struct SocketServer {
    view: Arc<OnceLock<View>>,
    _lines: tollway_socket::SocketServer,
}

impl SocketServer {
    /// Listens beside the engine's file, for its user only. The caller owns the file: a socket that is there is left over
    /// from a process that died.
    pub fn start(file: &Path, engine: Arc<dyn Engine>) -> Result<Self, EngineError> {
        let path = socket_path(file);
        let view = Arc::new(OnceLock::<View>::new());
        let shown = view.clone();
        let lines = tollway_socket::SocketServer::start(&path, move |line| {
            let (engine, shown) = (engine.clone(), shown.clone());
            async move { answer(&*engine, shown.get(), &line).await }
        });
        let lines = lines.map_err(|error| {
            let message = format!("commands cannot be answered at {}: {error}", path.display());
            EngineError::storage(Retry::Safe, message)
        })?;
        Ok(Self { view, _lines: lines })
    }

    /// From now on, commands also see what the runner of this process knows: [`Runner::view`](crate::run::Runner::view).
    pub fn show(&self, view: impl Fn() -> RunnerView + Send + Sync + 'static) {
        // A process has one runner; the first stays.
        let _ = self.view.set(Box::new(view));
    }
}
