//! Signals to end: the first tells the server to stop, another that nobody need be waited for.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tollway_server::Server;

use super::no_signals;
use crate::failure::Failure;

/// SIGTERM and SIGINT, heard from now on.
pub(super) struct StopSignals([Signal; 2]);

impl StopSignals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let hear = |kind| signal(kind).map_err(no_signals);
        Ok(Self([hear(SignalKind::terminate())?, hear(SignalKind::interrupt())?]))
    }

    /// Does what they say. Never ends.
    pub(super) async fn obey(mut self, server: &Server, stop: oneshot::Sender<()>) {
        self.next().await;
        let _ = stop.send(());
        loop {
            self.next().await;
            server.end_drain();
        }
    }

    async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let come = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if come { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
