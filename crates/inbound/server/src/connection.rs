//! One connection, from its arrival at a worker to its end.

use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};
use tollway_inbound::address::Peer;

use crate::alone::OwnPart;
use crate::charge_budget::ConnectionCharges;
use crate::connection_limits::ConnectionSlot;
use crate::counts::Open;
use crate::http::{self, BodyMemory};
use crate::listener::{ListenerKind, Reach};
use crate::resp;
use crate::socket::{Accepted, Watched};
use crate::worker::{ConnectionDeadlines, Load, Worker};

/// A connection on its way to a worker, with the slots it holds.
pub(crate) struct Arrival {
    pub(crate) socket: Accepted,
    pub(crate) peer: Peer,
    pub(crate) listener: ListenerKind,
    pub(crate) reach: Reach,
    pub(crate) _slot: ConnectionSlot,
    pub(crate) _open: Open,
    pub(crate) _load: Load,
}

/// The client of a connection: its address, its listener, its deadlines and the memory of its bodies.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) peer: Peer,
    pub(crate) listener: ListenerKind,
    pub(crate) reach: Reach,
    /// Whether it may only check the health: all other slots of the administration are in use.
    pub(crate) health_only: bool,
    pub(crate) deadlines: Rc<ConnectionDeadlines>,
    pub(crate) body_memory: Rc<BodyMemory>,
    pub(crate) charges: ConnectionCharges,
    /// What its client may take alone.
    pub(crate) own_part: Rc<OwnPart>,
}

impl Caller {
    /// Whether it may read metrics without a token whatever the config says: it is of this machine, and a program that is no
    /// server otherwise serves them.
    pub(crate) fn reads_metrics_openly(&self) -> bool {
        self.listener == ListenerKind::Program && self.reach != Reach::Network
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(worker: Rc<Worker>, arrival: Arrival) {
    let watch = worker.watch(arrival.listener, arrival.peer);
    let body_memory = Rc::new(BodyMemory::beside(&worker.unread));
    let caller = Caller {
        peer: arrival.peer,
        listener: arrival.listener,
        reach: arrival.reach,
        health_only: watch.health_only,
        deadlines: Rc::clone(&watch.deadlines),
        body_memory,
        charges: ConnectionCharges::default(),
        own_part: Rc::new(worker.state.client_shares.of_connection()),
    };
    let over_tcp = arrival.socket.is_tcp();
    let socket = match arrival.socket.open() {
        Ok(socket) => Watched::new(socket, Rc::clone(&watch.deadlines)),
        Err(error) => return tracing::debug!(%error, "cannot register a connection with the runtime"),
    };
    #[cfg(feature = "tls")]
    if let Some(tls) = worker.state.rules().tls.clone().filter(|_| over_tcp) {
        // The deadlines cut off a client that is slow with the handshake.
        let handshake = watch_task(&watch.deadlines, tls.accept(socket)).await;
        return match handshake {
            Ok(stream) => speak(&worker, stream, caller).await,
            Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
        };
    }
    #[cfg(not(feature = "tls"))]
    let _ = over_tcp;
    speak(&worker, socket, caller).await;
}

/// Speaks the protocol of the listener.
async fn speak(worker: &Rc<Worker>, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, caller: Caller) {
    match caller.listener {
        ListenerKind::Resp => {
            let deadlines = Rc::clone(&caller.deadlines);
            // Pools open connections ahead of their first request.
            deadlines.set_idle();
            watch_task(&deadlines, resp::serve(worker, stream, caller)).await;
        }
        _ => http::serve(worker, stream, caller).await,
    }
}

/// Registers the task's waker with the deadlines, so that they can wake the task when they cut the connection off.
async fn watch_task<F: Future>(deadlines: &ConnectionDeadlines, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        deadlines.served_by(context.waker());
        future.as_mut().poll(context)
    })
    .await
}
