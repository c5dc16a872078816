//! Shutdown signals: the first starts the drain, a second ends it.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tollway_server::Server;

use super::no_signals;
use crate::failure::Failure;

/// Handlers for SIGTERM and SIGINT.
pub(crate) struct StopSignals([Signal; 2]);

impl StopSignals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let handler = |kind| signal(kind).map_err(no_signals);
        Ok(Self([handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?]))
    }

    /// Handles signals. Never returns.
    pub(super) async fn handle(mut self, server: &Server, stop: oneshot::Sender<()>) {
        self.next().await;
        let _ = stop.send(());
        loop {
            self.next().await;
            server.end_drain();
        }
    }

    /// Waits for a signal.
    pub(crate) async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let received = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if received { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
