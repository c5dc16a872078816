//! Listeners that are opened and closed together: those for decisions, and administration, which closes after them.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ListenerKind;
use crate::accept::{Acceptor, accept};
use crate::listener::Listener;

/// Listeners that are open.
pub(crate) struct OpenListeners {
    acceptor: Arc<Acceptor>,
    loops: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl OpenListeners {
    pub(crate) fn open(listeners: Vec<(ListenerKind, Listener)>, acceptor: Acceptor) -> Self {
        let (stop, stopped) = watch::channel(false);
        let acceptor = Arc::new(acceptor);
        let mut loops = JoinSet::new();
        for (kind, listener) in listeners {
            loops.spawn(accept(listener, kind, Arc::clone(&acceptor), stopped.clone()));
        }
        Self { acceptor, loops, stop }
    }

    /// Stops accepting and waits for open connections, up to the workers' grace.
    pub(crate) async fn close(mut self) {
        self.stop.send_replace(true);
        while self.loops.join_next().await.is_some() {}
        if let Some(acceptor) = Arc::into_inner(self.acceptor) {
            acceptor.workers.end().await;
        }
    }
}
