//! Signals while a pipeline runs.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// Handlers for SIGTERM and SIGINT.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Also SIGHUP, which asks for a reload.
    pub(super) fn listen() -> Result<(Self, Signal), Failure> {
        let handler = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Exit::FAILED, format!("cannot handle signals: {error}")))
        };
        let stops = Self {
            terminate: handler(SignalKind::terminate())?,
            interrupt: handler(SignalKind::interrupt())?,
        };
        Ok((stops, handler(SignalKind::hangup())?))
    }

    /// Waits for this. None: a request to stop came first, and it was dropped.
    pub(super) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.next() => None,
            ended = work => Some(ended),
        }
    }

    /// The next request to stop.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
