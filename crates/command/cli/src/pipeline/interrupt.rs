//! Ctrl-C and SIGTERM for commands that take a while: they end between two steps.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// The exit codes of a command that a signal ended.
const INTERRUPTED: Exit = Exit::new(130);
const TERMINATED: Exit = Exit::new(143);

/// Handles the signals while it lives.
pub(super) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// Within a runtime.
    pub(super) fn listen() -> Result<Self, Failure> {
        let handler = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Exit::FAILED, format!("cannot handle signals: {error}")))
        };
        Ok(Self {
            interrupt: handler(SignalKind::interrupt())?,
            terminate: handler(SignalKind::terminate())?,
        })
    }

    /// Waits this long. The exit code, if a signal came first, or before.
    pub(super) async fn sleep(&mut self, time: Duration) -> Option<Exit> {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Some(INTERRUPTED),
            _ = self.terminate.recv() => Some(TERMINATED),
            () = tokio::time::sleep(time) => None,
        }
    }

    /// The exit code, if a signal came.
    pub(super) async fn came(&mut self) -> Option<Exit> {
        self.sleep(Duration::ZERO).await
    }
}
