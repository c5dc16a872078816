//! One connection, from the moment a worker has it until its end.

use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};
use tollway_inbound::address::Peer;

use crate::counts::Open;
use crate::http::{self, BodyRoom};
use crate::listener::Door;
use crate::places::Place;
use crate::resp;
use crate::socket::{Accepted, Watched};
use crate::worker::{Load, Pulse, Worker};

/// A connection on its way to a worker, with what it occupies.
pub(crate) struct Arrival {
    pub(crate) socket: Accepted,
    pub(crate) peer: Peer,
    pub(crate) door: Door,
    pub(crate) _place: Place,
    pub(crate) _open: Open,
    pub(crate) _load: Load,
}

/// Who is at the other end, and through which door they came.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) peer: Peer,
    pub(crate) door: Door,
    pub(crate) pulse: Rc<Pulse>,
    pub(crate) room: Rc<BodyRoom>,
}

/// Serves a connection until it ends, one way or another.
pub(crate) async fn serve(worker: Rc<Worker>, arrival: Arrival) {
    let watch = worker.watch(arrival.door);
    let room = Rc::new(BodyRoom::beside(&worker.unread));
    let caller = Caller { peer: arrival.peer, door: arrival.door, pulse: Rc::clone(&watch.pulse), room };
    let over_tcp = arrival.socket.is_tcp();
    let socket = match arrival.socket.open() {
        Ok(socket) => Watched::new(socket, Rc::clone(&watch.pulse)),
        Err(error) => return tracing::debug!(%error, "a connection is gone before it began"),
    };
    #[cfg(feature = "tls")]
    if let Some(tls) = worker.shared.rules().tls.clone().filter(|_| over_tcp) {
        // Whoever is slow with the handshake is cut off by the watch.
        let shaken = watch_task(&watch.pulse, tls.accept(socket)).await;
        return match shaken {
            Ok(stream) => speak(&worker, stream, caller).await,
            Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
        };
    }
    #[cfg(not(feature = "tls"))]
    let _ = over_tcp;
    speak(&worker, socket, caller).await;
}

/// In the language of the door.
async fn speak(worker: &Rc<Worker>, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, caller: Caller) {
    match caller.door {
        Door::Resp => {
            let pulse = Rc::clone(&caller.pulse);
            // Pools open connections ahead of their first request.
            pulse.rest();
            watch_task(&pulse, resp::serve(worker, stream, caller)).await;
        }
        _ => http::serve(worker, stream, caller).await,
    }
}

/// Lets the watch wake the task, so that what it cuts off is seen to be.
async fn watch_task<F: Future>(pulse: &Pulse, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        pulse.served_by(context.waker());
        future.as_mut().poll(context)
    })
    .await
}
