//! The accept loop: lets connections in and hands them to workers. Nothing that goes wrong with one of them ends it.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;
use tollway_inbound::address::Peer;

use crate::bounds::ACCEPT_PAUSE;
use crate::connection::Arrival;
use crate::counts::count;
use crate::listener::{Door, Listener};
use crate::places::{Place, Places, Room};
use crate::server::Shared;
use crate::socket::Accepted;
use crate::worker::Crew;

/// What the accept loops for decisions share, and what that of administration has for itself: places that nobody else can
/// take, and who serves.
pub(crate) struct Entrance {
    pub(crate) shared: Arc<Shared>,
    pub(crate) places: Arc<Places>,
    pub(crate) crew: Crew,
}

/// Lets connections in until `stop` says otherwise. The socket is closed then.
pub(crate) async fn accept(
    listener: Listener,
    door: Door,
    entrance: Arc<Entrance>,
    mut stop: watch::Receiver<bool>,
) {
    let stopped = async move { drop(stop.wait_for(|stopped| *stopped).await) };
    let let_in = async {
        loop {
            match listener.accept().await {
                Ok((socket, peer)) => entrance.let_in(socket, peer, door).await,
                Err(error) => rest_after(&error).await,
            }
        }
    };
    tokio::select! {
        biased;
        () = stopped => {}
        () = let_in => {}
    }
}

impl Entrance {
    /// Waits for room: those who come after wait in the kernel meanwhile.
    async fn let_in(&self, socket: Accepted, peer: Peer, door: Door) {
        let counts = &self.shared.counts;
        let room = match self.places.room_at_once() {
            Some(room) => room,
            None => {
                count(&counts.at(door).waited);
                let Some(room) = self.places.room().await else { return };
                room
            }
        };
        match self.place(room, peer) {
            Some(place) => {
                let arrive = |load| Arrival {
                    socket,
                    peer,
                    door,
                    _place: place,
                    _open: counts.open(door),
                    _load: load,
                };
                self.crew.hand_over(arrive).await;
            }
            None => {
                count(&counts.at(door).turned_away);
                tracing::debug!(?peer, "a client has as many connections as one may have");
            }
        }
    }

    fn place(&self, room: Room, peer: Peer) -> Option<Place> {
        let proxy = self.shared.rules().address.names(peer);
        if proxy { Some(Places::take_for_proxy(room)) } else { self.places.take(room, peer) }
    }
}

/// A connection that was given up while it waited is its client's affair. Anything else is the machine's, most likely
/// that it has no descriptors left: asking again at once would only keep a processor busy.
async fn rest_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        tracing::warn!(%error, "a connection cannot be accepted; resting a moment");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
