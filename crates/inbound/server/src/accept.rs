//! The accept loop: accepts connections and hands them to workers. An error of one connection does not end the loop.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;
use tollway_inbound::address::Peer;

use crate::bounds::ACCEPT_PAUSE;
use crate::connection::Arrival;
use crate::connection_limits::{ConnectionLimits, ConnectionSlot, Room};
use crate::counts::count;
use crate::listener::{Listener, ListenerKind, Reach};
use crate::server::ServerState;
use crate::socket::Accepted;
use crate::worker::Workers;

/// What the accept loops of some listeners share: their connection limits and their workers. Administration has its own.
pub(crate) struct Acceptor {
    pub(crate) state: Arc<ServerState>,
    pub(crate) limits: Arc<ConnectionLimits>,
    pub(crate) workers: Workers,
}

/// Accepts connections until `stop` is set; then closes the socket.
pub(crate) async fn accept(
    listener: Listener,
    kind: ListenerKind,
    acceptor: Arc<Acceptor>,
    mut stop: watch::Receiver<bool>,
) {
    let reach = listener.reach();
    let stopped = async move { drop(stop.wait_for(|stopped| *stopped).await) };
    let let_in = async {
        loop {
            match listener.accept().await {
                Ok((socket, peer)) => acceptor.let_in(socket, peer, kind, reach).await,
                Err(error) => pause_after(&error).await,
            }
        }
    };
    tokio::select! {
        biased;
        () = stopped => {}
        () = let_in => {}
    }
}

impl Acceptor {
    /// Waits for room; later connections wait in the kernel's backlog meanwhile.
    async fn let_in(&self, socket: Accepted, peer: Peer, kind: ListenerKind, reach: Reach) {
        let counts = &self.state.counts;
        let room = match self.limits.room_at_once() {
            Some(room) => room,
            None => {
                count(&counts.at(kind).waited);
                let Some(room) = self.limits.room().await else { return };
                room
            }
        };
        match self.slot(room, peer) {
            Some(slot) => {
                let arrive = |load| Arrival {
                    socket,
                    peer,
                    listener: kind,
                    reach,
                    _slot: slot,
                    _open: counts.open(kind),
                    _load: load,
                };
                self.workers.hand_over(arrive).await;
            }
            None => {
                count(&counts.at(kind).turned_away);
                tracing::debug!(?peer, "closed a connection: its client is at the connection limit");
            }
        }
    }

    fn slot(&self, room: Room, peer: Peer) -> Option<ConnectionSlot> {
        let proxy = self.state.rules().address.names(peer);
        if proxy { Some(ConnectionLimits::take_for_proxy(room)) } else { self.limits.take(room, peer) }
    }
}

/// A client that disconnects while it waits is no error. Other errors usually mean that no file descriptors are left: an
/// immediate retry would only spin.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "cannot accept a connection; pausing");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
