//! Doors that are opened and closed together: those for decisions, and that of administration, which is closed after them.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Door;
use crate::accept::{Entrance, accept};
use crate::listener::Listener;

/// Doors that are open.
pub(crate) struct Doors {
    entrance: Arc<Entrance>,
    loops: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Doors {
    pub(crate) fn open(listeners: Vec<(Door, Listener)>, entrance: Entrance) -> Self {
        let (stop, stopped) = watch::channel(false);
        let entrance = Arc::new(entrance);
        let mut loops = JoinSet::new();
        for (door, listener) in listeners {
            loops.spawn(accept(listener, door, Arc::clone(&entrance), stopped.clone()));
        }
        Self { entrance, loops, stop }
    }

    /// Lets nobody in any more, and waits for those who are in, as long as the workers' grace.
    pub(crate) async fn close(mut self) {
        self.stop.send_replace(true);
        while self.loops.join_next().await.is_some() {}
        if let Some(entrance) = Arc::into_inner(self.entrance) {
            entrance.crew.end().await;
        }
    }
}
