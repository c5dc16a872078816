//! The worker threads: a new connection goes to the one with the fewest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};

use super::{run, yield_before_park};
use crate::ServeError;
use crate::bounds::INBOX_MAX;
use crate::connection::Arrival;
use crate::server::ServerState;

/// Workers that serve the same listeners.
pub(crate) struct Workers(Vec<Member>);

struct Member {
    inbox: mpsc::Sender<Arrival>,
    load: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

/// One connection of a worker's load, until it is dropped.
pub(crate) struct Load(Arc<AtomicUsize>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts threads named `name-0`, `name-1` and so on; `grace` bounds requests in flight at the end.
    pub(crate) fn start(
        state: &Arc<ServerState>,
        name: &str,
        workers: usize,
        grace: Duration,
    ) -> Result<Self, ServeError> {
        let start = |number| start_one(format!("{name}-{number}"), Arc::clone(state), workers, grace);
        let members = (0..workers).map(start);
        members.collect::<Result<_, _>>().map(Self)
    }

    /// Hands a connection to the worker with the fewest. If its inbox is full, waits; later connections wait in the kernel.
    pub(crate) async fn hand_over(&self, arrive: impl FnOnce(Load) -> Arrival) {
        let least = self.0.iter().min_by_key(|member| member.load.load(Ordering::Relaxed));
        let Some(member) = least else { return };
        member.load.fetch_add(1, Ordering::Relaxed);
        let arrival = arrive(Load(Arc::clone(&member.load)));
        if member.inbox.send(arrival).await.is_err() {
            tracing::error!("a worker has ended; its connections are lost");
        }
    }

    /// Closes the inboxes and waits until every worker has ended.
    pub(crate) async fn end(self) {
        let (threads, ended): (Vec<_>, Vec<_>) =
            self.0.into_iter().map(|member| (member.thread, member.ended)).unzip();
        for one in ended {
            // A worker that panicked has ended, too.
            let _ = one.await;
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn start_one(
    name: String,
    state: Arc<ServerState>,
    workers: usize,
    grace: Duration,
) -> Result<Member, ServeError> {
    let machine = |error: std::io::Error| ServeError::Machine(error.to_string());
    let (inbox, receiver) = mpsc::channel(INBOX_MAX);
    let (tell_started, started) = std::sync::mpsc::sync_channel(1);
    let (tell_ended, ended) = oneshot::channel();
    let work = move || {
        let mut builder = Builder::new_current_thread();
        let runtime = builder
            .enable_io()
            .enable_time()
            .on_thread_park(yield_before_park::before_park)
            .build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                let _ = tell_started.send(Ok(()));
                runtime.block_on(run(state, workers, receiver, grace));
                // What still runs has exceeded its grace.
                drop(runtime);
                let _ = tell_ended.send(());
            }
            Err(error) => drop(tell_started.send(Err(error))),
        }
    };
    let thread = std::thread::Builder::new().name(name).spawn(work).map_err(machine)?;
    match started.recv() {
        Ok(Ok(())) => Ok(Member { inbox, load: Arc::default(), thread, ended }),
        Ok(Err(error)) => Err(machine(error)),
        Err(_) => Err(ServeError::Machine("a worker thread ended before it started".to_owned())),
    }
}
