//! Accepts connections and serves HTTP/1.1 on them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::answer::answer;
use super::state::VendorState;

/// Open connections. Further clients wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 4_096;

/// How long a client may take to send the head of a request, and how long an idle connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A pause after a failed accept, such as one for want of file descriptors.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);

/// Accepts until it is told to stop, then waits for the calls in flight. Dropping it closes all connections.
pub(super) async fn accept(
    listener: TcpListener,
    state: Arc<VendorState>,
    mut stopped: watch::Receiver<bool>,
) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            // Reaps connections that have ended.
            Some(_) = connections.join_next() => continue,
            accepted = accept_one(&listener, &free) => accepted,
        };
        let Ok((stream, slot)) = accepted else {
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            continue;
        };
        let (state, stopped) = (Arc::clone(&state), stopped.clone());
        connections.spawn(async move {
            serve(stream, state, stopped).await;
            drop(slot);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn accept_one(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = Arc::clone(free).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, slot))
}

/// An error of a connection is its client's: it went away, or it does not speak HTTP.
async fn serve(stream: TcpStream, state: Arc<VendorState>, mut stopped: watch::Receiver<bool>) {
    let service = service_fn(move |request| answer(Arc::clone(&state), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
